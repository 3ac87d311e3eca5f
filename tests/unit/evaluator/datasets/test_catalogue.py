"""The catalogue agrees with the records that it cites."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from evaluator.datasets.catalogue import CataloguedSet, load_catalogue

SETS = load_catalogue().sets


def record(name: str) -> dict[str, dict[str, dict[str, object]]]:
    # Not imported: that takes a second.
    package = find_spec("ir_datasets")
    assert package is not None
    assert package.origin is not None
    content = (Path(package.origin).parent / "etc" / f"{name}.json").read_text(encoding="utf-8")
    records: dict[str, dict[str, dict[str, object]]] = json.loads(content)
    return records


DOWNLOADS, METADATA = record("downloads")["beir"], record("metadata")


def test_the_19_sets_and_the_12_forums_are_there() -> None:
    assert sum(known.part_of is None for known in SETS.values()) == 19
    assert [known.part_of for known in SETS.values() if known.part_of] == ["cqadupstack"] * 12


def test_each_archive_is_the_one_that_ir_datasets_records() -> None:
    for known in SETS.values():
        if known.archive is not None:
            recorded = DOWNLOADS[known.archive.ir_datasets]
            assert recorded["expected_md5"] == known.archive.md5
            assert str(recorded["url"]).endswith(f"/{known.name}.zip")


def judged(known: CataloguedSet) -> tuple[int, int, dict[str, int]] | None:
    """Returns documents, queries and judgments by grade as ir_datasets counts them."""
    key = known.archive.ir_datasets if known.archive else known.name
    for name in (f"beir/{key}/{known.split}", f"beir/{key}"):
        counts = METADATA.get(name, {})
        if "qrels" in counts:
            documents = METADATA[str(counts["docs"]["_ref"])]["docs"] if "_ref" in counts["docs"] else counts["docs"]
            fields = json.loads(json.dumps(counts["qrels"]["fields"]))
            return (
                int(str(documents["count"])),
                int(str(counts["queries"]["count"])),
                fields["relevance"]["counts_by_value"],
            )
    return None


COUNTED = [(known, counts) for known in SETS.values() if (counts := judged(known)) is not None]


def test_the_statistics_are_those_that_ir_datasets_counts() -> None:
    assert len(COUNTED) == 14 + 12  # all sets that it can fetch
    for known, (documents, queries, grades) in COUNTED:
        relevant = sum(count for grade, count in grades.items() if int(grade) > 0)
        published = known.statistics
        assert (published.documents, published.queries) == (documents, queries), known.name
        assert published.relevant_a_query == pytest.approx(relevant / queries, abs=0.05 + 1e-9), known.name
        assert known.grades == ("graded" if max(map(int, grades)) > 1 else "binary"), known.name


def test_the_forums_add_up_to_cqadupstack() -> None:
    forums = load_catalogue().parts("cqadupstack")
    whole = SETS["cqadupstack"].statistics
    assert sum(forum.statistics.documents for forum in forums) == whole.documents
    assert sum(forum.statistics.queries for forum in forums) == whole.queries
