"""Reads the weights of queries' word pieces (IDF) from a table, which `workshop.idf` writes from a corpus."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from services.files.regular_file import read_regular
from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import ModelError

COMMAND = ".venv/bin/python -m workshop.idf"
Float32 = NDArray[np.float32]
_TABLE = TypeAdapter(dict[str, Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]])


@dataclass(frozen=True, slots=True, eq=False)
class IdfTable:
    """Weight by token id, fp32 [vocabulary], and the sha256 of the file that has them."""

    weights: Float32
    sha256: str


def read_idf(file: Path, tokenizer: ModelTokenizer) -> IdfTable:
    """Reads a JSON object of weight by word piece; a piece without one weighs 0. Raises ModelError."""
    try:
        content = read_regular(file)
        table = _TABLE.validate_json(content)
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}; `{COMMAND}` writes it.") from error
    except ValidationError as error:
        raise ModelError(
            f"{file} is not a JSON object of a weight by word piece, as `{COMMAND}` writes: {first_problem(error)}."
        ) from error
    pieces = tokenizer.ids_by_piece()
    weights = np.zeros(max(pieces.values()) + 1, dtype=np.float32)
    for piece, weight in table.items():
        if piece not in pieces:
            raise ModelError(
                f"{file} has a weight for '{piece}', which is not a word piece of the model; "
                f"write it for this model with `{COMMAND}`."
            )
        weights[pieces[piece]] = weight
    return IdfTable(weights, sha256(content).hexdigest())


def first_problem(error: ValidationError) -> str:
    """Describes the first problem of a file, as a clause with its place: `oil: Input should be a valid number`."""
    first = error.errors(include_url=False)[0]
    return ": ".join((*map(str, first["loc"]), first["msg"]))
