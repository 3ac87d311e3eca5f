"""Makes zips of small test collections, for the tests of fetching and unpacking."""

import io
import zipfile
from collections.abc import Mapping, Sequence

SMALL_SET: Mapping[str, str] = {
    "corpus.jsonl": '{"_id": "d1", "title": "", "text": "a red bell"}\n{"_id": "d2", "title": "", "text": "a lamp"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "bell"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


def zip_of(members: Sequence[tuple[str | zipfile.ZipInfo, str | bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Returns a zip with the members, as they are given."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content, method)
    return packed.getvalue()


def members_of(*folders: str) -> list[tuple[str | zipfile.ZipInfo, str | bytes]]:
    """Returns the members of a small set below each folder."""
    return [(f"{folder}/{name}", content) for folder in folders for name, content in SMALL_SET.items()]
