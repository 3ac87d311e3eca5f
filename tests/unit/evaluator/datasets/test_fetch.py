"""Fetching: the zip that lies beside or the one of ir_datasets; nothing unverified, nothing half there."""

import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.datasets.catalogue import Catalogue, CataloguedSet, OfficialArchive, PublishedStatistics, load_catalogue
from evaluator.datasets.fetch import fetch
from evaluator.datasets.reader import read_dataset
from evaluator.errors import EvaluationError
from tests.support.archives import SMALL_SET, members_of, zip_of

ZIP = zip_of([*members_of("shop"), ("shop/notes.txt", "x"), ("../outside.tsv", "x"), ("shop/qrels/../../x.tsv", "x")])
OTHER = zip_of(members_of("shop"))
STATISTICS = PublishedStatistics(documents=2, queries=1, relevant_a_query=1.0)


def known(name: str, content: bytes | None = ZIP, part_of: str | None = None) -> CataloguedSet:
    archive = None
    if content is not None:
        # A name that ir_datasets does not know is an error of the catalogue, so each test names a real one.
        archive = OfficialArchive(md5=hashlib.md5(content).hexdigest(), ir_datasets="scifact")
    return CataloguedSet(
        name=name, title=name, split="test", grades="binary", part_of=part_of, statistics=STATISTICS, archive=archive
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # ir_datasets gets a folder of its own, and no network: its only addresses are real ones.
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "ir_datasets"))
    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "1")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{bound.getsockname()[1]}"
    for variable in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, closed)
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets"


def catalogue(place: Path, *sets: CataloguedSet) -> Catalogue:
    listed = sets or (known("shop"),)
    directories = (place, place.parent / "elsewhere")
    return Catalogue(directories, "https://example.org/how", {chosen.name: chosen for chosen in listed})


def laid_beside(place: Path, name: str = "shop", content: bytes = ZIP) -> Path:
    (place / f"{name}.zip").write_bytes(content)
    return place / f"{name}.zip"


def kept_by_ir_datasets(place: Path, content: bytes) -> Path:
    kept = place.parent / "ir_datasets" / "beir" / "scifact" / "source.zip"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(content)
    return kept


def test_a_zip_that_lies_beside_is_unpacked_to_the_files_of_the_layout_and_kept(place: Path) -> None:
    beside = laid_beside(place)
    assert fetch(catalogue(place), "shop") == (place / "shop",)
    assert read_dataset(place / "shop").counts.documents == 2
    written = {str(path.relative_to(place / "shop")) for path in (place / "shop").rglob("*") if path.is_file()}
    assert written == set(SMALL_SET)
    assert {path.name for path in place.iterdir()} == {"shop", ".shop.lock", beside.name}
    assert {path.name for path in place.parent.iterdir()} == {"sets"}


def test_a_copy_of_ir_datasets_is_unpacked_and_kept(place: Path) -> None:
    kept = kept_by_ir_datasets(place, ZIP)
    assert fetch(catalogue(place), "shop") == (place / "shop",)
    assert kept.is_file()


@pytest.mark.parametrize("put", [kept_by_ir_datasets, lambda place, content: laid_beside(place, content=content)])
def test_an_archive_of_another_md5_is_never_unpacked(place: Path, put: object) -> None:
    assert callable(put)
    archive = put(place, OTHER)
    with pytest.raises(EvaluationError, match=rf"{archive}: its md5 is not"):
        fetch(catalogue(place), "shop")
    assert not (place / "shop").exists()


def test_without_network_one_sentence_states_what_to_put_where(place: Path) -> None:
    with pytest.raises(EvaluationError) as refused:
        fetch(catalogue(place), "shop")
    message = str(refused.value)
    assert f"put the official shop.zip (md5 {hashlib.md5(ZIP).hexdigest()})" in message
    assert f"with corpus.jsonl, queries.jsonl and qrels/, into {place}" in message
    assert "\n" not in message


def test_a_set_that_is_there_is_not_fetched(place: Path) -> None:
    for name, content in SMALL_SET.items():
        path = place.parent / "elsewhere" / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert fetch(catalogue(place), "shop") == (place.parent / "elsewhere" / "shop",)


def test_a_part_comes_with_all_parts_of_its_archive(place: Path) -> None:
    packed = zip_of(members_of("all/tex", "all/gis"))
    parts = [known(f"all/{part}", None, "all") for part in ("tex", "gis")]
    sets = catalogue(place, known("all", packed), *parts)
    laid_beside(place, "all", packed)
    assert fetch(sets, "all/tex") == (place / "all" / "tex",)
    (place / "all.zip").unlink()
    assert fetch(sets, "all") == (place / "all" / "tex", place / "all" / "gis")


def test_what_a_killed_process_left_of_unpacking_is_removed_and_two_processes_fetch_once(place: Path) -> None:
    laid_beside(place)
    (place / ".shop.unpacking" / "shop").mkdir(parents=True)
    (place / ".shop.unpacking" / "shop" / "corpus.jsonl").write_text("half of it")
    with ThreadPoolExecutor(4) as pool:
        fetched = list(pool.map(lambda _: fetch(catalogue(place), "shop"), range(4)))
    assert fetched == [(place / "shop",)] * 4
    assert read_dataset(place / "shop").counts.documents == 2
    assert not (place / ".shop.unpacking").exists()


def test_what_is_in_the_way_is_named_and_left_alone(place: Path) -> None:
    laid_beside(place)
    (place / "shop").mkdir()
    (place / "shop" / "mine.txt").write_text("keep")
    with pytest.raises(EvaluationError, match="in the way"):
        fetch(catalogue(place), "shop")
    assert (place / "shop" / "mine.txt").is_file()


def test_an_archive_without_the_set_leaves_none(place: Path) -> None:
    packed = zip_of(members_of("other"))
    laid_beside(place, content=packed)
    with pytest.raises(EvaluationError, match=r"shop\.zip: not all of corpus\.jsonl"):
        fetch(catalogue(place, known("shop", packed)), "shop")
    assert not (place / "shop").exists()


@pytest.mark.parametrize(("name", "said"), [("robust04", r"robust04 .*https://\S+"), ("sifact", "msmarco, trec-covid")])
def test_a_set_that_cannot_be_fetched_is_refused_with_what_helps(place: Path, name: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        fetch(load_catalogue(), name)
