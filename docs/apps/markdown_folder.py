"""Keeps a collection equal to a folder of Markdown files: sends what changed, deletes what is gone.

pip install ./clients/python
python docs/apps/markdown_folder.py ~/notes notes --every 60

The collection holds nothing but the folder. A document is a chunk of a file; its id is `<path>#<number>`.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from retrieval_client import Client, Document, RetrievalError

CHUNK_WORDS, OVERLAP_WORDS = 200, 40
MOST_DELETED = 1_000  # by one call


def chunks(path: str, text: str) -> Iterator[Document]:
    """Yields overlapping chunks of a file, under its first heading as the title."""
    heading = re.search(r"^#\s+(.+)", text, re.MULTILINE)
    title = heading[1].strip() if heading else path
    words = list(re.finditer(r"\S+", text))
    step = CHUNK_WORDS - OVERLAP_WORDS
    for number, first in enumerate(range(0, max(len(words) - OVERLAP_WORDS, min(len(words), 1)), step)):
        last = words[first : first + CHUNK_WORDS][-1]
        part = text[words[first].start() : last.end()]
        yield Document(id=f"{path}#{number}", title=title, text=part, metadata={"path": path})


def follow(client: Client, folder: Path, collection: str) -> tuple[int, int]:
    """Makes the collection equal to the folder. Returns how many chunks were sent and how many deleted."""
    files = sorted(folder.rglob("*.md"))
    if not files:
        sys.exit(f"{folder} holds no Markdown files: nothing is changed, in case it is the wrong folder")
    found = {}
    for file in files:
        for chunk in chunks(file.relative_to(folder).as_posix(), file.read_text("utf-8", "replace")):
            found[chunk.id] = chunk
    begun = client.begin(collection, metadata={"path": "keyword"})
    stored = {} if begun.build else {one.id: (one.title, one.text) for one in client.documents(collection)}
    changed = [chunk for chunk in found.values() if stored.get(chunk.id) != (chunk.title, chunk.text)]
    gone = [identity for identity in stored if identity not in found]
    client.load(collection, changed, build=begun.build)
    for first in range(0, len(gone), MOST_DELETED):
        client.delete_documents(collection, gone[first : first + MOST_DELETED])
    if begun.build:
        client.publish(collection, build=begun.build)
    return len(changed), len(gone)


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
