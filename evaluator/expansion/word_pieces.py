"""Divides words into the word pieces of a BERT vocabulary (Devlin et al. 2019, appendix A.2). Pure."""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evaluator.errors import EvaluationError

MOST_CHARACTERS = 100  # of a word; the tokenizer takes a longer one for unknown


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")

    vocab: dict[str, int]


class _TokenizerFile(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: _Model


def read_vocabulary(file: Path) -> Mapping[str, int]:
    """Returns the number of each word piece of a `tokenizer.json`. Raises EvaluationError."""
    try:
        return _TokenizerFile.model_validate_json(file.read_bytes()).model.vocab
    except (OSError, ValidationError) as error:
        raise EvaluationError(
            f"{file}: no tokenizer.json of word pieces can be read there; --models names the folder of the models"
        ) from error


def pieces_of(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Returns the numbers of a word's pieces, in lower case without accents; characters between letters divide it."""
    plain = "".join(one for one in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(one) != "Mn")
    parts = "".join(one if one.isalnum() else " " for one in plain).split()
    return [number for part in parts for number in _longest(part, vocabulary)]


def _longest(part: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    """Yields the longest pieces from the left; nothing if a rest is in no piece."""
    found: list[int] = []
    start = 0
    while start < len(part) <= MOST_CHARACTERS:
        prefix = "##" if start else ""
        ends = (end for end in range(len(part), start, -1) if prefix + part[start:end] in vocabulary)
        if (end := next(ends, None)) is None:
            return
        found.append(vocabulary[prefix + part[start:end]])
        start = end
    yield from found
