"""Weighs the words of documents by a learned sparse model: DeepCT (Dai and Callan 2019) with the weights of SPLADE."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import batches_of, continued_file
from evaluator.expansion.sparse_service import SparseService
from evaluator.expansion.word_pieces import pieces_of, read_vocabulary
from evaluator.progress import progress
from services.contracts.expansions import ExpansionModel, Expansions, WordFrequencies
from services.contracts.words import word_pattern

BATCH = 32  # documents in one request
# Frequencies are ten times as high as counts, so that rounding leaves differences of weight.
SCALE = 10
_MODEL: TypeAdapter[str] = TypeAdapter(ExpansionModel)


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
            asked = [one for one in batch if one.passage.strip()]
            weights = await service.weights([one.passage for one in asked]) if asked else []
            by_id = {one.id: held for one, held in zip(asked, weights, strict=True)}
            lines = []
            for one in batch:
                words = word_frequencies(one.passage, by_id.get(one.id, {}), pieces)
                lines.append((one.id, Expansions(deepct=WordFrequencies(model=model, words=words))))
            file.write(lines)
            advance(len(batch))


def word_frequencies(text: str, weights: Mapping[int, float], pieces: Callable[[str], Sequence[int]]) -> str:
    """Returns `word|frequency` of each word, as it stands first: half its count, and half by its weight in the text.

    `weights`: of word pieces by number; a word's is that of its heaviest piece. A word of the mean weight keeps its
    count, times SCALE.
    """
    composed = unicodedata.normalize("NFC", text).replace("\u202f", " ")  # white space, and yet a part of words
    found = word_pattern(composed).findall(composed)
    counts = Counter(map(str.lower, found))
    # In lower case İ becomes a letter and a mark, which would divide the word.
    first = {word.lower(): word for word in reversed(found)}
    heaviest = {word: max((weights.get(piece, 0.0) for piece in pieces(word)), default=0.0) for word in counts}
    mean = sum(heaviest.values()) / max(1, len(heaviest))
    factors = {word: 0.5 + 0.5 * (weight / mean if mean else 1.0) for word, weight in heaviest.items()}
    return " ".join(f"{first[word]}|{round(SCALE * count * factors[word])}" for word, count in counts.items())
