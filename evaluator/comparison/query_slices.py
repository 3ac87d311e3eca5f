"""Groups queries by the `metadata` of queries.jsonl."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.datasets.ids import read_id
from evaluator.datasets.text_files import HashedLines, json_objects

# A field with more values is an identifier or a measurement, and no grouping.
MOST_VALUES = 12


def query_slices(path: Path, queries: Sequence[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Returns field → value → queries, for fields with 2 to 12 values; TREC topics have none.

    Raises DatasetError for a line that is none.
    """
    if ".jsonl" not in path.suffixes:
        return {}
    fields: dict[str, dict[str, list[str]]] = {}
    metadata = dict(_metadata(path))
    for query in queries:
        for field, value in metadata.get(query, {}).items():
            fields.setdefault(field, {}).setdefault(value, []).append(query)
    return {
        field: {value: tuple(members) for value, members in sorted(values.items())}
        for field, values in fields.items()
        if 2 <= len(values) <= MOST_VALUES
    }


def _metadata(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    for place, value, _ in json_objects(path, HashedLines(path)):
        given = value.get("metadata")
        if isinstance(given, dict):
            plain = {str(name): str(one) for name, one in given.items() if isinstance(one, str | int | bool)}
            yield read_id(value.get("_id"), place)[0], plain
