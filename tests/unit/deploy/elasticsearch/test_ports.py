"""Where a started server says that it listens: in a file of a folder that its user may change."""

import os
from pathlib import Path

import pytest

from deploy.elasticsearch.server import read_ports


def test_the_addresses_are_read_once_the_server_has_written_them(tmp_path: Path) -> None:
    file = tmp_path / "http.ports"
    assert read_ports(file) == []
    file.write_text("[::1]:9200\n127.0.0.1:9200\n")
    assert read_ports(file) == ["[::1]:9200", "127.0.0.1:9200"]


@pytest.mark.timeout(20)
def test_a_link_a_pipe_a_folder_and_a_device_in_its_place_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "foreign").write_text("127.0.0.1:1\n")
    (tmp_path / "link").symlink_to(tmp_path / "foreign")
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert [read_ports(tmp_path / name) for name in ("link", "endless", "pipe", "folder")] == [[]] * 4


def test_of_a_file_without_an_end_little_is_read(tmp_path: Path) -> None:
    file = tmp_path / "http.ports"
    with file.open("wb") as opened:
        opened.truncate(2**40)
    assert sum(map(len, read_ports(file))) <= 4_096
