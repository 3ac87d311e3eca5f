"""Fetching: sources in order, downloads that go on where they broke off, nothing unverified, nothing half there."""

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.datasets.catalogue import Catalogue, CataloguedSet, OfficialArchive, PublishedStatistics, load_catalogue
from evaluator.datasets.fetch import fetch
from evaluator.datasets.reader import read_dataset
from evaluator.errors import EvaluationError
from tests.support.archives import SMALL_SET, members_of, zip_of
from tests.support.file_server import ServedFile, serving_file

# Larger than one chunk of the download and of a socket's buffer, and incompressible.
NOISE = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(100_000))
ZIP = zip_of([*members_of("shop"), ("shop/noise", NOISE)])
STATISTICS = PublishedStatistics(documents=2, queries=1, relevant_a_query=1.0)


def known(name: str, content: bytes | None = ZIP, part_of: str | None = None) -> CataloguedSet:
    archive = None
    if content is not None:
        # A name that ir_datasets does not know is an error of the catalogue, so each test names a real one.
        archive = OfficialArchive(md5=hashlib.md5(content).hexdigest(), bytes=len(content), ir_datasets="scifact")
    return CataloguedSet(
        name=name, title=name, split="test", grades="binary", part_of=part_of, statistics=STATISTICS, archive=archive
    )


@pytest.fixture
def served() -> Iterator[ServedFile]:
    with serving_file(ZIP) as file:
        yield file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # ir_datasets gets a folder of its own, and no network: its only addresses are real ones.
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "ir_datasets"))
    monkeypatch.setenv("IR_DATASETS_DL_TRIES", "1")
    for variable in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    return tmp_path / "sets"


def closed_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def catalogue(place: Path, url: str, *sets: CataloguedSet) -> Catalogue:
    listed = sets or (known("shop"),)
    return Catalogue((place, place.parent / "elsewhere"), url, "https://example.org/how", {s.name: s for s in listed})


def write_set(folder: Path) -> None:
    for name, content in SMALL_SET.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def test_a_fetched_set_can_be_read_and_leaves_no_archive(place: Path, served: ServedFile) -> None:
    assert fetch(catalogue(place, served.url), "shop") == (place / "shop",)
    assert read_dataset(place / "shop").counts.documents == 2
    assert {path.name for path in place.iterdir()} == {"shop", ".shop.lock"}


def test_a_set_that_is_there_is_not_fetched(place: Path, served: ServedFile) -> None:
    write_set(place.parent / "elsewhere" / "shop")
    assert fetch(catalogue(place, served.url), "shop") == (place.parent / "elsewhere" / "shop",)
    assert served.asked_ranges == []


@pytest.mark.parametrize("stops", [[1], [1_500_000], [1_500_000, 700_000], [0, 0, 0, 0]], ids=str)
def test_a_download_that_breaks_off_goes_on_where_it_stood(place: Path, served: ServedFile, stops: list[int]) -> None:
    served.breaks_off_after = list(stops)
    fetch(catalogue(place, served.url), "shop")
    stood = [sum(stops[:n]) for n in range(len(stops) + 1)]
    assert served.asked_ranges == [f"bytes={at}-" if at else None for at in stood]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(place: Path, served: ServedFile) -> None:
    served.breaks_off_after = [500_000, 0, 0, 0, 0]
    with pytest.raises(EvaluationError, match="5 times"):
        fetch(catalogue(place, served.url), "shop")
    fetch(catalogue(place, served.url), "shop")
    assert served.asked_ranges[-1] == "bytes=500000-"


def test_a_server_without_ranges_sends_all_again(place: Path, served: ServedFile) -> None:
    served.ranges, served.breaks_off_after = False, [1_500_000]
    assert fetch(catalogue(place, served.url), "shop") == (place / "shop",)


@pytest.mark.parametrize("earlier", [b"of another file", ZIP + b"and more"], ids=["other", "longer"])
def test_a_part_of_another_file_is_fetched_anew(place: Path, served: ServedFile, earlier: bytes) -> None:
    place.mkdir()
    (place / ".shop.zip.part").write_bytes(earlier)
    assert fetch(catalogue(place, served.url), "shop") == (place / "shop",)
    assert served.asked_ranges == [f"bytes={len(earlier)}-", None]


def test_a_whole_part_is_not_fetched_again(place: Path, served: ServedFile) -> None:
    place.mkdir()
    (place / ".shop.zip.part").write_bytes(ZIP)
    fetch(catalogue(place, served.url), "shop")
    assert served.asked_ranges == []


def test_an_archive_of_another_md5_is_never_unpacked(place: Path, served: ServedFile) -> None:
    served.content = zip_of(members_of("shop"))
    with pytest.raises(EvaluationError, match="md5"):
        fetch(catalogue(place, served.url), "shop")
    assert {path.name for path in place.iterdir()} == {".shop.lock"}


def test_a_range_that_begins_elsewhere_is_refused(place: Path, served: ServedFile) -> None:
    served.breaks_off_after, served.starts_at = [1000], 7
    with pytest.raises(EvaluationError, match=r"byte 1000.*byte 7"):
        fetch(catalogue(place, served.url), "shop")


def test_a_server_that_never_ends_is_left(place: Path, served: ServedFile) -> None:
    served.endless = True
    with pytest.raises(EvaluationError, match="more than 2 times"):
        fetch(catalogue(place, served.url), "shop")
    assert (place / ".shop.zip.part").stat().st_size <= 2 * len(ZIP)


def test_without_network_one_sentence_says_what_to_put_where(place: Path) -> None:
    with pytest.raises(EvaluationError) as refused:
        fetch(catalogue(place, f"http://127.0.0.1:{closed_port()}"), "shop")
    told = str(refused.value)
    assert f"put the official shop.zip (md5 {hashlib.md5(ZIP).hexdigest()})" in told
    assert f"with corpus.jsonl, queries.jsonl and qrels/, into {place}" in told
    assert "\n" not in told


def test_a_zip_that_was_put_there_is_unpacked_and_kept(place: Path) -> None:
    place.mkdir()
    (place / "shop.zip").write_bytes(ZIP)
    assert fetch(catalogue(place, "http://127.0.0.1:1"), "shop") == (place / "shop",)
    assert (place / "shop.zip").is_file()


def test_a_zip_of_another_md5_that_was_put_there_is_refused(place: Path, served: ServedFile) -> None:
    place.mkdir()
    (place / "shop.zip").write_bytes(zip_of(members_of("shop")))
    with pytest.raises(EvaluationError, match="md5"):
        fetch(catalogue(place, served.url), "shop")
    assert not (place / "shop").exists()


def test_ir_datasets_delivers_when_the_server_does_not(place: Path) -> None:
    kept = place.parent / "ir_datasets" / "beir" / "scifact" / "source.zip"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(ZIP)
    assert fetch(catalogue(place, f"http://127.0.0.1:{closed_port()}"), "shop") == (place / "shop",)
    assert kept.is_file()


def test_a_copy_of_ir_datasets_is_verified_too(place: Path) -> None:
    kept = place.parent / "ir_datasets" / "beir" / "scifact" / "source.zip"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(zip_of(members_of("shop")))
    with pytest.raises(EvaluationError, match=r"source\.zip.*md5"):
        fetch(catalogue(place, f"http://127.0.0.1:{closed_port()}"), "shop")


def test_a_part_comes_with_all_parts_of_its_archive(place: Path) -> None:
    packed = zip_of(members_of("all/tex", "all/gis"))
    parts = [known(f"all/{part}", None, "all") for part in ("tex", "gis")]
    with serving_file(packed) as served:
        sets = catalogue(place, served.url, known("all", packed), *parts)
        assert fetch(sets, "all/tex") == (place / "all" / "tex",)
        assert fetch(sets, "all") == (place / "all" / "tex", place / "all" / "gis")
    assert len(served.asked_ranges) == 1


def test_what_a_killed_process_left_of_unpacking_is_removed(place: Path, served: ServedFile) -> None:
    (place / ".shop.unpacking" / "shop").mkdir(parents=True)
    (place / ".shop.unpacking" / "shop" / "corpus.jsonl").write_text("half of it")
    fetch(catalogue(place, served.url), "shop")
    assert read_dataset(place / "shop").counts.documents == 2
    assert not (place / ".shop.unpacking").exists()


def test_two_processes_fetch_a_set_once(place: Path, served: ServedFile) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: fetch(catalogue(place, served.url), "shop"), range(4)))
    assert found == [(place / "shop",)] * 4
    assert served.asked_ranges == [None]


def test_what_is_in_the_way_is_named_and_left_alone(place: Path, served: ServedFile) -> None:
    (place / "shop").mkdir(parents=True)
    (place / "shop" / "mine.txt").write_text("keep")
    with pytest.raises(EvaluationError, match="in the way"):
        fetch(catalogue(place, served.url), "shop")
    assert (place / "shop" / "mine.txt").is_file()


def test_an_archive_that_cannot_be_unpacked_leaves_no_set(place: Path) -> None:
    packed = zip_of(members_of("other"))
    with serving_file(packed) as served, pytest.raises(EvaluationError, match=r"shop/corpus\.jsonl"):
        fetch(catalogue(place, served.url, known("shop", packed)), "shop")
    assert not (place / "shop").exists()


def test_a_set_that_nobody_may_hand_out_says_how_it_is_made(place: Path) -> None:
    with pytest.raises(EvaluationError, match=r"robust04 .*https://\S+"):
        fetch(load_catalogue(), "robust04")


def test_an_unknown_set_is_refused_with_the_names(place: Path) -> None:
    with pytest.raises(EvaluationError, match="msmarco, trec-covid"):
        fetch(load_catalogue(), "sifact")
