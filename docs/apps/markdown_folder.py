"""Keeps a collection equal to a folder of Markdown files: sends what changed, deletes what is gone.

pip install ./clients/python markdown-it-py
python docs/apps/markdown_folder.py ~/notes notes --every 60

The collection holds nothing but the folder. A document is a chunk of a file; its id is `<path>#<number>`.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt

from retrieval_client import Client, RetrievalError
from retrieval_client.answers import Document

# The models read 256 tokens. One is a letter of Chinese, Japanese or Thai, whose words have no spaces between them, a
# punctuation mark, or about seven letters of other words: of abstracts in English, 99 in 100 chunks have less than 256.
CHUNK, OVERLAP = 200, 40  # tokens, as estimated
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]{{1,40}}")
TOKEN = re.compile(r"\w{1,7}|[^\w\s]")
FRONT_MATTER = re.compile(r"\A---\s*\n.*?^(---|\.\.\.)\s*$", re.MULTILINE | re.DOTALL)
MOST_DELETED = 1_000  # by one call
BUILD = "markdown-folder"  # by this name a first pass that was interrupted goes on
UNSENDABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")  # refused in ids, dropped from texts


def chunks(path: str, file: Path) -> Iterator[Document]:
    """Yields overlapping chunks of a file, under its first heading as the title. Raises OSError or ValueError."""
    if UNSENDABLE.search(path) or len(path.encode()) > 500:
        raise ValueError("its name cannot be an id")
    if not file.is_file():  # a pipe would be waited for
        raise ValueError("is no file")
    text = UNSENDABLE.sub(" ", file.read_text("utf-8-sig"))
    tokens = MarkdownIt().parse(FRONT_MATTER.sub("", text))
    headings = (inside for opened, inside in pairwise(tokens) if opened.type == "heading_open" and opened.tag == "h1")
    title = next((" ".join(one.content.split()) for one in headings), "") or path
    words = [word for word in WORD.finditer(text) for _ in TOKEN.findall(word[0])]
    for number, first in enumerate(range(0, max(len(words) - OVERLAP, min(len(words), 1)), CHUNK - OVERLAP)):
        part = text[words[first].start() : words[first : first + CHUNK][-1].end()]
        yield Document(id=f"{path}#{number}", title=title, text=part, metadata={"path": path})


def follow(client: Client, folder: Path, collection: str) -> tuple[int, int]:
    """Makes the collection equal to what can be read. Returns how many chunks were sent and how many deleted."""
    found: dict[str, Document] = {}
    skipped: dict[Path, Exception] = {}
    for inside, _, names in os.walk(folder, onerror=lambda error: skipped.update({Path(error.filename): error})):
        for file in (Path(inside, name) for name in names if name.endswith(".md")):
            try:
                found |= {chunk.id: chunk for chunk in chunks(file.relative_to(folder).as_posix(), file)}
            except (OSError, ValueError) as error:
                skipped[file] = error
    for path, why in skipped.items():
        print(f"skipped {str(path)!r}: {getattr(why, 'strerror', why)}", file=sys.stderr)
    if not found:
        raise RetrievalError("nothing-read", f"no Markdown in {folder}: nothing is changed, it may be the wrong folder")
    begun, sent = client.begin(collection, metadata={"path": "keyword"}, build=BUILD), 0
    if begun.generation != begun.live:
        sent = client.load(collection, found.values(), build=BUILD).documents
        client.publish(collection, build=BUILD)
    stored = {one.id: (one.title, one.text) for one in client.documents(collection)}
    changed = [chunk for chunk in found.values() if stored.get(chunk.id) != (chunk.title, chunk.text)]
    files = {identity: folder / identity.rpartition("#")[0] for identity in stored if identity not in found}
    gone = [identity for identity, file in files.items() if not any(map(file.is_relative_to, skipped))]
    client.load(collection, changed)
    for first in range(0, len(gone), MOST_DELETED):
        client.delete_documents(collection, gone[first : first + MOST_DELETED])
    return sent + len(changed), len(gone)


def main() -> None:
    """Makes one pass, or one every so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("collection")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of the gateway; its key is GATEWAY_API_KEY")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="go on until you end it")
    arguments = parser.parse_args()
    with Client(arguments.url, key=os.environ.get("GATEWAY_API_KEY")) as client:
        while True:
            try:
                sent, deleted = follow(client, arguments.folder, arguments.collection)
                print(f"sent {sent}, deleted {deleted}", flush=True)
            except RetrievalError as error:
                if arguments.every is None:
                    sys.exit(f"{error.kind}: {error}")
                print(f"{error.kind}: {error}", file=sys.stderr)
            if arguments.every is None:
                return
            time.sleep(arguments.every)


if __name__ == "__main__":
    main()
