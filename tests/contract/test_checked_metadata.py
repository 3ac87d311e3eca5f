"""What `datasets check` accepts is taken by a service: with the fields that it declares, by a real embedded engine."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.datasets.corpus import sent_json
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.errors import DatasetError
from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.support.opened_client import opened_client
from tests.support.scratch import scratch

FIELDS = ("day", "size", "2nd", "größe", "a b", "x" * 64, "x" * 65, "_", "")
DAYS = (
    "2024-05-31", "0000-00-00", "2024-05-31 12:00:00", "2024-02-30", "9999-12-31T23:59:59+00:00", "0001-01-01",
    "2024-05-31T25:00", "٢٠٢٤-٠٥-٣١", "2024-05-31\n", "2024-W22-5", "20240531", "2024-05-31T12:00:00,5Z",
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from((*DAYS, "", " ", "x" * 32_767, "ü" * 16_384, "\ud800" * 3, "a\x00b", "NaN", "1.10", "true")),
    st.text(max_size=20),
)
NUMBERS = st.one_of(
    st.integers(-(10**41), 10**41),
    st.floats(),
    st.sampled_from((-(10**39), 10**40 - 1, 1e400, 5e-324, -0.0, 2**53 + 1)),
)
VALUES = st.one_of(
    TEXTS, NUMBERS, st.booleans(), st.none(), st.lists(TEXTS, max_size=4), st.lists(NUMBERS, max_size=2), st.just({})
)
METADATA = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), min_size=1, max_size=4)


def written(folder: Path, metadata: list[dict[str, object]]) -> Path:
    """Writes a collection with a document for each metadata, as Python's json writes any value (NaN, Infinity)."""
    (folder / "qrels").mkdir()
    lines = [{"_id": str(at), "text": "kettle", "metadata": one} for at, one in enumerate(metadata)]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "kettle"}\n')
    (folder / "qrels" / "test.tsv").write_text("q\t0\t1\n")
    return folder


async def load(dataset: Dataset) -> None:
    """Loads a collection as it was checked; fails where the service takes not every document."""
    with scratch() as directory:
        async with opened_client(build_app(LexicalSettings(directory=directory))) as client:
            declared = {"metadata": dict(dataset.schema)}
            begun = await client.put("/v1/collections/c@1", json=declared)
            assert begun.status_code == 200, begun.text
            body = b'{"documents": [' + b", ".join(map(sent_json, dataset.documents())) + b"]}"
            report = await client.post(
                "/v1/collections/c@1/documents", content=body, headers={"content-type": "application/json"}
            )
            assert report.status_code == 200, report.text
            assert report.json()["errors"] == []
            assert report.json()["indexed"] == dataset.counts.documents


@settings(max_examples=60)
@given(metadata=METADATA)
def test_a_service_takes_every_metadata_that_was_checked(metadata: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            dataset = read_dataset(written(Path(folder), metadata))
        except DatasetError:  # one clear refusal, before anything is sent
            return
        asyncio.run(load(dataset))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2024-05-31", "2024-06-01 12:00:00"], "date"),
        (["2024-05-31", "0000-00-00"], "keyword"),
        (["2024-05-31", "2024-02-30"], "keyword"),
        ([["2024-05-31"], "2024-06-01"], "date"),
        ([2019, "2020"], "keyword"),
        ([2019, True], "keyword"),
        ([2019, 10**39], "number"),
        (["short", "x" * 40_000], None),
        (["ü" * 16_383], "keyword"),
        ([["a", "ü" * 16_384]], None),
    ],
)
async def test_a_field_has_the_kind_that_all_its_values_have(
    tmp_path: Path, values: list[object], kind: str | None
) -> None:
    dataset = read_dataset(written(tmp_path, [{"field": value} for value in values]))
    assert dataset.schema == ({} if kind is None else {"field": kind})
    assert dataset.counts.metadata_fields_undeclared == (() if kind else ("field",))
    await load(dataset)


def test_a_number_of_more_characters_than_a_service_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"corpus\.jsonl:1: .*41"):
        read_dataset(written(tmp_path, [{"size": -(10**39) * 9}, {}]))
