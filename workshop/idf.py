"""Writes a table of IDF of word pieces from a corpus, without running a model.

`.venv/bin/python -m workshop.idf CORPUS --model NAME --out FILE`
"""

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.contracts.documents import Document
from services.files.disk_writes import end_command, write_whole
from services.files.regular_file import open_regular
from services.inference.digests import file_mismatch
from services.inference.idf import COMMAND, first_problem
from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import (
    MODELS_FILE,
    TOKENIZER,
    ModelError,
    ModelProfile,
    TokenEncoderProfile,
    load_profile,
)

# Of [CLS], [SEP], [MASK] and markers. With the mean weight of the queries' word pieces nDCG@10 is lower; with 0 it is
# within .002, but a query without word pieces would have no vector (docs/measurements/2026-11-26-idf.md).
SPECIAL_WEIGHT = 1.0
PASSAGES_PER_BATCH = 256


class _Line(BaseModel):
    """What is read of a line of corpus.jsonl (BEIR)."""

    title: str | None = None
    text: str | None = None


def idf_of(passages: Iterable[str], tokenizer: ModelTokenizer, special: Set[int]) -> dict[str, float]:
    """Computes the weight of every token of the vocabulary: log((N + 1) / (n + 0.5)).

    N counts the passages, n those that contain it, whole and not cut at a model's limit. So a word piece that never
    occurs weighs most. Those of `special` weigh SPECIAL_WEIGHT. Raises ModelError without any passage.
    """
    total, occurrences = 0, Counter[int]()
    rest = iter(passages)
    while batch := tuple(islice(rest, PASSAGES_PER_BATCH)):
        total += len(batch)
        for ids in tokenizer.ids(batch):
            occurrences.update(set(ids))
    if not total:
        raise ModelError("The corpus holds no documents.")
    return {
        # Rounded: the last digits of a logarithm differ between machines, and the stamp has the file's sha256.
        piece: SPECIAL_WEIGHT if number in special else round(math.log((total + 1) / (occurrences[number] + 0.5)), 4)
        for piece, number in sorted(tokenizer.ids_by_piece().items(), key=lambda item: item[1])
    }


def passages_of(corpus: Path) -> Iterator[str]:
    """Yields the passage of every document of a corpus.jsonl, as services encode it. Raises ModelError, OSError."""
    with open_regular(corpus) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                read = _Line.model_validate_json(line)
                yield Document(id="-", title=read.title or "", text=read.text or "").passage
            except ValidationError as error:
                raise ModelError(
                    f"{corpus}, line {number} is not a document of BEIR, a JSON object with `title` and `text`: "
                    f"{first_problem(error)}."
                ) from error


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns 0 when the table is written, 1 otherwise."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the IDF of a corpus's word pieces.")
    parser.add_argument("corpus", type=Path, help="a corpus.jsonl in BEIR layout")
    parser.add_argument("--model", required=True, metavar="NAME", help="a model of models.yaml: its word pieces")
    parser.add_argument("--out", required=True, type=Path, help="the file to write, a JSON object")
    parser.add_argument("--directory", type=Path, default=Path(".models"), help="where models lie (default: .models)")
    parser.add_argument("--models", type=Path, default=MODELS_FILE, help="the list of models")
    chosen = parser.parse_args(arguments)
    try:
        profile = load_profile(chosen.models, chosen.model)
        folder = chosen.directory / profile.name
        if wrong := file_mismatch(folder / TOKENIZER, profile.files[TOKENIZER]):
            raise ModelError(f"{folder} is not usable: {wrong}; `make models MODELS={profile.name}` puts it right.")
        tokenizer = ModelTokenizer(folder / TOKENIZER, profile.max_tokens)
        table = idf_of(passages_of(chosen.corpus), tokenizer, tokenizer.special_ids | _markers(profile, tokenizer))
    except ModelError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    write_whole(chosen.out, json.dumps(table, ensure_ascii=False, indent=0) + "\n")
    sys.stdout.write(f"{chosen.out}: {len(table):,} word pieces, weights up to {max(table.values())}\n")
    return 0


def _markers(profile: ModelProfile, tokenizer: ModelTokenizer) -> set[int]:
    if not isinstance(profile, TokenEncoderProfile):
        return set()
    return {tokenizer.token_id(marker) for marker in (profile.query_marker, profile.passage_marker) if marker}


if __name__ == "__main__":
    end_command("workshop.idf", main)
