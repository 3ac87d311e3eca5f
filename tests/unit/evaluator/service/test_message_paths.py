"""Messages over HTTP name files by their place in the service's folders, and tell nothing of what is above them."""

from pathlib import Path

import pytest

from evaluator.service.served_files import MessagePaths

PATHS = MessagePaths([Path("/srv/our runs"), Path("/srv/our runs/sets"), Path("/data"), Path("/")])


@pytest.mark.parametrize(
    ("message", "shortened"),
    [
        ("/data/shop/corpus.jsonl:7: not JSON", "shop/corpus.jsonl:7: not JSON"),
        ("/srv/our runs/sets/shop: no", "shop: no"),
        ("the folder /data is full", "the folder data is full"),
        ("run `/usr/bin/python -m evaluator rank --run /data/x` again", "run `python -m evaluator rank --run x` again"),
        ("--judgments=/home/ann/more.qrels --judgments=b.qrels", "--judgments=more.qrels --judgments=b.qrels"),
        ("(/etc/ssl/key.pem, '/etc/passwd')", "(key.pem, 'passwd')"),
    ],
)
def test_a_path_is_told_from_the_folder_that_is_known_on(message: str, shortened: str) -> None:
    assert PATHS.shortened(ValueError(message)) == shortened


def test_what_is_no_absolute_path_stays() -> None:
    message = "../shop/x, .runs/y: POST http://127.0.0.1:8000/v1/collections/shop, GET /v1/experiments/x; 1/2 of 3 / 4"
    assert PATHS.shortened(message) == message


def test_a_folder_behind_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    (tmp_path / "real folder").mkdir()
    (tmp_path / "a link").symlink_to(tmp_path / "real folder")
    paths = MessagePaths([tmp_path / "a link"])
    said = f"{tmp_path}/real folder/x: no; {tmp_path}/a link/y: no"
    assert paths.shortened(said) == "x: no; y: no"
