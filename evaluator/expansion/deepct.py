"""Weighs the words of documents by a learned sparse model: DeepCT (Dai and Callan 2019) with the weights of SPLADE."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from pydantic import AliasPath, BaseModel, Field, TypeAdapter, ValidationError

from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import batches_of, continued_file
from evaluator.expansion.sparse_service import SparseService
from evaluator.progress import progress
from services.contracts.expansions import ExpansionModel, Expansions, WordFrequencies
from services.contracts.words import word_pattern

BATCH = 32  # documents in one request
# Frequencies are ten times as high as counts, so that rounding leaves differences of weight.
SCALE = 10
MOST_WORD_CHARACTERS = 100  # of a word; the tokenizer takes a longer one for unknown
_MODEL: TypeAdapter[str] = TypeAdapter(ExpansionModel)


class _TokenizerFile(BaseModel):
    vocabulary: dict[str, int] = Field(validation_alias=AliasPath("model", "vocab"))


async def expand_deepct(service: SparseService, dataset: Dataset, models: Path, out: Path) -> None:
    """Writes the word frequencies of every document, going on where an earlier call stopped. Raises EvaluationError.

    `models`: the folder with `NAME/tokenizer.json` of the server's model.
    """
    model = await service.model()
    try:
        _MODEL.validate_python(model)
    except ValidationError as error:
        raise EvaluationError(f"the server's X-Model is {model!r}, where NAME@SHA256 is needed") from error
    vocabulary = read_vocabulary(models / model.partition("@")[0] / "tokenizer.json")

    @cache
    def pieces(word: str) -> tuple[int, ...]:
        return tuple(pieces_of(word, vocabulary))

    with (
        continued_file(out, dataset.documents(), {"deepct": model}, BATCH) as file,
        progress("Weighing words", dataset.counts.documents, "documents") as advance,
    ):
        advance(file.done)
        for batch in batches_of(islice(dataset.documents(), file.done, None), BATCH):
            passages = {document.id: document.passage for document in batch if document.passage.strip()}
            weights = await service.weights(list(passages.values())) if passages else []
            by_id = dict(zip(passages, weights, strict=True))
            lines = []
            for document in batch:
                words = word_frequencies(document.passage, by_id.get(document.id, {}), pieces)
                lines.append((document.id, Expansions(deepct=WordFrequencies(model=model, words=words))))
            file.write(lines)
            advance(len(batch))


def word_frequencies(text: str, weights: Mapping[int, float], pieces: Callable[[str], Sequence[int]]) -> str:
    """Returns `word|frequency` of each word, as it stands first: half its count, and half by its weight in the text.

    `weights`: of word pieces by number; a word's is that of its heaviest piece. A word of the mean weight keeps its
    count, times SCALE.
    """
    composed = unicodedata.normalize("NFC", text).replace("\u202f", " ")  # white space, and yet a part of words
    every = word_pattern(composed).findall(composed)
    counts = Counter(map(str.lower, every))
    # In lower case İ becomes a letter and a mark, which would divide the word.
    first = {word.lower(): word for word in reversed(every)}
    heaviest = {word: max((weights.get(piece, 0.0) for piece in pieces(word)), default=0.0) for word in counts}
    mean = sum(heaviest.values()) / max(1, len(heaviest))
    factors = {word: 0.5 + 0.5 * (weight / mean if mean else 1.0) for word, weight in heaviest.items()}
    return " ".join(f"{first[word]}|{round(SCALE * count * factors[word])}" for word, count in counts.items())


def read_vocabulary(file: Path) -> Mapping[str, int]:
    """Returns the number of each word piece of a `tokenizer.json`. Raises EvaluationError."""
    try:
        return _TokenizerFile.model_validate_json(file.read_bytes()).vocabulary
    except (OSError, ValidationError) as error:
        raise EvaluationError(
            f"{file}: no tokenizer.json of word pieces can be read there; --models names the folder of the models"
        ) from error


def pieces_of(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Returns the numbers of a word's pieces in a BERT vocabulary (Devlin et al. 2019, appendix A.2).

    The word is taken in lower case, without accents; characters between letters divide it.
    """
    decomposed = unicodedata.normalize("NFD", word.lower())
    plain = "".join(character for character in decomposed if unicodedata.category(character) != "Mn")
    parts = "".join(character if character.isalnum() else " " for character in plain).split()
    return [number for part in parts for number in _longest(part, vocabulary)]


def _longest(part: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    """Yields the longest pieces from the left; nothing if a rest is in no piece."""
    pieces: list[int] = []
    start = 0
    while start < len(part) <= MOST_WORD_CHARACTERS:
        prefix = "##" if start else ""
        ends = (end for end in range(len(part), start, -1) if prefix + part[start:end] in vocabulary)
        if (end := next(ends, None)) is None:
            return
        pieces.append(vocabulary[prefix + part[start:end]])
        start = end
    yield from pieces
