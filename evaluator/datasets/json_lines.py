"""Reads files that hold one JSON object a line."""

import json
from collections.abc import Container, Iterator
from pathlib import Path

from evaluator.datasets.text_files import HashedLines, decoded
from evaluator.errors import DatasetError


def json_objects(
    path: Path, lines: HashedLines, positions: Container[int] | None = None
) -> Iterator[tuple[str, dict[str, object], int]]:
    """Yields place, value and bytes of each line that is not blank, or of those at `positions`. Raises DatasetError."""
    position = -1
    # Only \n ends a line of JSON; str.splitlines would also split at U+2028.
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        position += 1
        if positions is not None and position not in positions:
            continue
        place = f"{path}:{number}"
        try:
            value = json.loads(decoded(line, place))
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{place}: not JSON: {error}") from error
        if not isinstance(value, dict):
            raise DatasetError(f"{place}: not a JSON object")
        yield place, value, len(line)
