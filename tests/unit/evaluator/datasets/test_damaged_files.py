"""Whatever stands in the files of a collection, reading ends in a checked dataset or in one sentence."""

import gzip
import random
from pathlib import Path

import pytest

from evaluator.datasets.reader import read_dataset
from evaluator.errors import DatasetError
from tests.support.gateway_stub import write_shop

SEED, CASES = 20_261_123, 120
JSON = b"".join(
    b'{"query-id": "q%d", "corpus-id": "d%d", "score": %d}\n' % numbers for numbers in ((1, 1, 2), (1, 2, 1), (2, 4, 1))
)
TOPICS = b"<top>\n<num> Number: q1\n<title> red bell\n</top>\n<top>\n<num> Number: q2\n<title> oil chain\n</top>\n"
XML = b'<topics><topic number="q1"><query>red bell</query></topic><topic number="q2"><title>o</title></topic></topics>'
LINES = b"q1 0 d1 1\nq2 0 d4 1\n"
INSERTED = (
    b'"', b"\t", b"\n", b"\r", b"\\ud800", b"\x00", b"\xff", b"{", b"}", b"[", b"1e999", b"-1", b"null", b"NaN",
    b"true", b"\xe2\x80\xa8", b" ", b"<", b",", b":", b"\\u0000", b"9" * 50, b"9" * 5_000, b"[" * 3_000,
)  # fmt: skip


def damaged(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(changed) + 1)
        if dice.random() < 0.5:
            changed[at:at] = dice.choice(INSERTED)
        else:
            del changed[at : at + dice.randint(1, 8)]
    return bytes(changed)


def packed_now_and_then(path: Path, content: bytes, dice: random.Random) -> tuple[Path, bytes]:
    if dice.random() < 0.8:
        return path, content
    packed = gzip.compress(content, mtime=0)
    return path.with_name(f"{path.name}.gz"), damaged(packed, dice) if dice.random() < 0.5 else packed


def outcome(shop: Path) -> str:
    """Reads the collection; raises whatever is neither a dataset nor a sentence that can be printed."""
    try:
        dataset = read_dataset(shop)
    except DatasetError as error:
        str(error).encode()
        return "sentence"
    documents = sum(1 for _ in dataset.documents())
    judged = [name for grades in dataset.judgments.values() for name in grades]
    "".join([*dataset.queries, *dataset.queries.values(), *judged, dataset.counts.model_dump_json()]).encode()
    return "dataset" if documents == dataset.counts.documents else "documents lost"


@pytest.mark.parametrize(
    "replaced",
    [{}, {"qrels/test.tsv": ("qrels/test.jsonl", JSON)},
     {"queries.jsonl": ("topics.txt", TOPICS), "qrels/test.tsv": ("qrels/test.qrels", LINES)},
     {"queries.jsonl": ("topics.xml", XML), "qrels/test.tsv": ("qrels/test.txt", LINES)}],
    ids=["BEIR", "JSON judgments", "TREC topics", "XML topics"],
)  # fmt: skip
def test_damaged_files_end_in_a_dataset_or_in_a_sentence(
    tmp_path: Path, replaced: dict[str, tuple[str, bytes]]
) -> None:
    shop = write_shop(tmp_path / "shop")
    for name, (other, content) in replaced.items():
        (shop / name).unlink()
        (shop / other).write_bytes(content)
    files = {path: path.read_bytes() for path in sorted(shop.rglob("*.*")) if path.is_file()}
    dice, seen = random.Random(SEED), set()
    for _ in range(CASES):
        path = dice.choice(list(files))
        path.unlink()
        target, content = packed_now_and_then(path, damaged(files[path], dice), dice)
        target.write_bytes(content)
        seen.add(outcome(shop))
        target.unlink()
        path.write_bytes(files[path])
    assert seen == {"sentence", "dataset"}
