"""An archive is unpacked whole and harmlessly, or refused in one sentence."""

import stat
import struct
import zipfile
from pathlib import Path

import pytest

from evaluator.datasets.unpack import MOST_MEMBERS, SMALL_BYTES, unpack
from evaluator.errors import DatasetError
from tests.support.archives import SMALL_SET, members_of, zip_of


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def unpacked(content: bytes, into: Path, *folders: str) -> set[str]:
    archive = into.parent / "set.zip"
    archive.write_bytes(content)
    unpack(archive, folders or ("shop",), into)
    return {str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()}


def test_the_files_of_the_layout_are_unpacked_and_others_stay(into: Path) -> None:
    packed = zip_of([*members_of("shop"), ("shop/notes.txt", "x"), ("__MACOSX/shop/corpus.jsonl", "x")])
    assert unpacked(packed, into) == {f"shop/{name}" for name in SMALL_SET}
    assert (into / "shop" / "corpus.jsonl").read_text() == SMALL_SET["corpus.jsonl"]


def test_every_part_of_a_set_is_unpacked(into: Path) -> None:
    names = unpacked(zip_of(members_of("all/tex", "all/gis")), into, "all/tex", "all/gis")
    assert names == {f"all/{part}/{name}" for part in ("tex", "gis") for name in SMALL_SET}


@pytest.mark.parametrize(
    "name",
    ["../shop/corpus.jsonl", "/shop/corpus.jsonl", "shop/../../x", "shop\\..\\..\\x", "C:/x", "shop/qrels/../../x.tsv"],
)
def test_a_path_that_leads_outside_is_refused(name: str, into: Path) -> None:
    with pytest.raises(DatasetError, match="outside"):
        unpacked(zip_of([*members_of("shop"), (name, "x")]), into)
    assert list(into.iterdir()) == []
    assert {path.name for path in into.parent.iterdir()} == {"into", "set.zip"}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_a_link_or_special_file_is_refused(kind: int, into: Path) -> None:
    link = zipfile.ZipInfo("shop/qrels/more.tsv")
    link.create_system = 3
    link.external_attr = (kind | 0o777) << 16
    with pytest.raises(DatasetError, match="link"):
        unpacked(zip_of([*members_of("shop"), (link, "/etc/passwd")]), into)
    assert list(into.iterdir()) == []


def test_a_bomb_is_refused_before_anything_is_written(into: Path) -> None:
    with pytest.raises(DatasetError, match="100 times"):
        unpacked(zip_of([*members_of("shop"), ("shop/qrels/train.tsv", b"0" * 12_000_000)]), into)
    assert list(into.iterdir()) == []


def test_a_bomb_of_many_files_is_refused(into: Path) -> None:
    parts = [(f"shop/qrels/{number}.tsv", b"0" * (SMALL_BYTES // 10)) for number in range(100)]
    with pytest.raises(DatasetError, match="100 times"):
        unpacked(zip_of([*members_of("shop"), *parts]), into)


def test_a_bomb_that_understates_its_size_is_refused(into: Path) -> None:
    packed = zip_of([*members_of("shop"), ("shop/qrels/train.tsv", b"0" * 12_000_000)])
    understated = packed.replace(struct.pack("<L", 12_000_000), struct.pack("<L", 100))
    with pytest.raises(DatasetError, match="CRC-32"):
        unpacked(understated, into)
    assert sum(path.stat().st_size for path in into.rglob("*") if path.is_file()) < SMALL_BYTES


def test_too_many_files_are_refused(into: Path) -> None:
    many = [(f"shop/{number}", "") for number in range(MOST_MEMBERS + 1)]
    with pytest.raises(DatasetError, match="at most"):
        unpacked(zip_of(many, zipfile.ZIP_STORED), into)


def test_a_compression_whose_memory_has_no_bound_is_refused(into: Path) -> None:
    with pytest.raises(DatasetError, match="deflated"):
        unpacked(zip_of(members_of("shop"), zipfile.ZIP_LZMA), into)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_refused(into: Path) -> None:
    with pytest.raises(DatasetError, match="twice"):
        unpacked(zip_of([*members_of("shop"), *members_of("shop")]), into)


@pytest.mark.parametrize("missing", SMALL_SET)
def test_an_archive_without_a_file_of_the_layout_is_refused(missing: str, into: Path) -> None:
    members = [member for member in members_of("shop") if member[0] != f"shop/{missing}"]
    with pytest.raises(DatasetError, match=r"shop/\S+"):
        unpacked(zip_of(members), into)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip at all", zip_of(members_of("shop"))[:-40]])
def test_a_broken_archive_is_refused(content: bytes, into: Path) -> None:
    with pytest.raises(DatasetError, match="not a zip"):
        unpacked(content, into)


def test_an_encrypted_archive_is_refused(into: Path) -> None:
    packed = bytearray(zip_of(members_of("shop")))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = packed.find(signature)
        while at >= 0:
            packed[at + flags] |= 1
            at = packed.find(signature, at + 4)
    with pytest.raises(DatasetError, match="encrypted"):
        unpacked(bytes(packed), into)
