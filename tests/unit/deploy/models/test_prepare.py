"""Checks that a cross-encoder's graph is rewritten once for each device, and again only after a change."""

import shutil
from pathlib import Path

import onnx
import pytest

from deploy.models.fetch import fetch
from deploy.models.prepare import REWRITE_CODE, prepare, rewrite_sha256
from deploy.models.sources import FetchOptions
from services.inference.digests import file_sha256, folder_mismatch
from services.inference.prepared_graphs import RECORD, PreparedRecord, read_record, variant_of
from services.inference.profiles import GRAPH, CrossEncoderProfile, DirectorySource, ModelError
from tests.support.graphs import how_many, small_cross_encoder
from tests.support.models import sum_of_ids, tiny_cross_encoder

CPU, PLAIN = variant_of("cpu"), variant_of("cuda")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tiny"


@pytest.fixture
def profile(folder: Path) -> CrossEncoderProfile:
    return small_cross_encoder(folder)


def record_of(folder: Path) -> PreparedRecord:
    record = read_record(folder)
    assert record is not None
    return record


def prepared_files(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in folder.iterdir() if file.name.startswith("prepared")}


def test_each_device_gets_its_own_graph(profile: CrossEncoderProfile, folder: Path) -> None:
    record = record_of(folder)
    here, elsewhere = (onnx.load(folder / record.graphs[variant].file) for variant in (CPU, PLAIN))
    assert [how_many(graph, "MultiHeadAttention") for graph in (here, elsewhere)] == [2, 0]
    assert all(how_many(graph, "Slice") for graph in (here, elsewhere))
    assert record.source_sha256 == profile.files[GRAPH]
    assert {one.sha256 for one in record.graphs.values()} == {
        file_sha256(folder / one.file) for one in record.graphs.values()
    }
    assert folder_mismatch(profile, folder) is None


def test_a_prepared_folder_stays_as_it_is(profile: CrossEncoderProfile, folder: Path) -> None:
    before = prepared_files(folder)
    assert not prepare(profile, folder)
    assert prepared_files(folder) == before


@pytest.mark.parametrize("key", ["source_sha256", "rewrite_sha256"])
def test_another_source_or_other_code_prepares_it_again(profile: CrossEncoderProfile, folder: Path, key: str) -> None:
    before = record_of(folder)
    stale = folder / "prepared-portable-0123456789ab.onnx"
    stale.write_bytes(b"of an older rewriting")
    (folder / RECORD).write_text(before.model_copy(update={key: "0" * 64}).model_dump_json())
    assert prepare(profile, folder)
    assert record_of(folder) == before
    assert not stale.exists()


@pytest.mark.parametrize("content", [b"half of it", None])
def test_a_damaged_or_missing_graph_is_prepared_again(
    profile: CrossEncoderProfile, folder: Path, content: bytes | None
) -> None:
    before = record_of(folder)
    damaged = folder / before.graphs[PLAIN].file
    damaged.unlink() if content is None else damaged.write_bytes(content)
    assert prepare(profile, folder)
    assert record_of(folder) == before
    assert file_sha256(damaged) == before.graphs[PLAIN].sha256


@pytest.mark.parametrize("content", ["", "[]"])
def test_an_invalid_record_is_written_again(profile: CrossEncoderProfile, folder: Path, content: str) -> None:
    before = record_of(folder)
    (folder / RECORD).write_text(content)
    assert prepare(profile, folder)
    assert record_of(folder) == before


def test_each_change_of_the_code_or_of_onnx_changes_the_rewrite_sha256(tmp_path: Path) -> None:
    copy = tmp_path / "graph_rewrites"
    shutil.copytree(REWRITE_CODE, copy)
    assert rewrite_sha256(copy, "1.19") == rewrite_sha256(REWRITE_CODE, "1.19") != rewrite_sha256(REWRITE_CODE, "1.20")
    with (copy / "graph_nodes.py").open("a") as changed:
        changed.write("\n")
    assert rewrite_sha256(copy, "1.19") != rewrite_sha256(REWRITE_CODE, "1.19")


def test_a_failed_rewrite_leaves_the_old_graphs_and_no_other_file(profile: CrossEncoderProfile, folder: Path) -> None:
    before = prepared_files(folder)
    (folder / GRAPH).write_bytes(b"not a graph at all")
    other = profile.model_copy(update={"files": profile.files | {GRAPH: file_sha256(folder / GRAPH)}})
    with pytest.raises(ModelError, match=r"tiny/model\.onnx"):
        prepare(other, folder)
    assert prepared_files(folder) == before


def test_a_graph_that_is_not_the_declared_one_is_not_rewritten(profile: CrossEncoderProfile, folder: Path) -> None:
    other = profile.model_copy(update={"files": profile.files | {GRAPH: "0" * 64}})
    with pytest.raises(ModelError, match=r"model\.onnx .*sha256"):
        prepare(other, folder)
    assert not prepare(profile, folder)


def test_make_models_prepares_a_cross_encoder_and_reports_it_once(tmp_path: Path) -> None:
    made = tiny_cross_encoder(tmp_path / "origin", sum_of_ids("logits"))
    wanted = made.model_copy(update={"sources": (DirectorySource(kind="directory", path="origin"),)})
    lines: list[str] = []
    for _ in range(2):
        folder = fetch(wanted, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert lines == [
        f"tiny: fetched from directory origin into {folder}",
        "tiny: prepared for ONNX Runtime on a CPU and on a GPU",
        f"tiny: present and verified in {folder}",
    ]
    assert record_of(folder) == record_of(tmp_path / "origin")


def test_make_models_prepares_a_folder_that_was_fetched_earlier(tmp_path: Path) -> None:
    """After an upgrade of the checkout, the files of the model are there and stay."""
    made = tiny_cross_encoder(tmp_path / "models" / "tiny", sum_of_ids("logits"))
    folder = tmp_path / "models" / "tiny"
    before = {name: (folder / name).stat().st_mtime_ns for name in made.files}
    for name in prepared_files(folder):
        (folder / name).unlink()
    lines: list[str] = []
    fetch(made, tmp_path / "models", FetchOptions(tmp_path), lines.append)
    assert record_of(folder).source_sha256 == made.files[GRAPH]
    assert {name: (folder / name).stat().st_mtime_ns for name in made.files} == before
