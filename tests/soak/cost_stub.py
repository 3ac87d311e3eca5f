"""`python -m tests.soak.cost_stub [--timings]`: runs three backends that answer at once with prepared bytes.

They cost little, and their answers suit every release, so that a comparison measures the gateways alone. With
`--timings`, searches, texts and scores have the Server-Timing header of our services.
"""

import asyncio
import json
import re
import sys

from tests.soak import wire

HITS = 200
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
SEARCH_TIMINGS = {
    "lexical": "wait;dur=0.01, bm25;dur=3.52, total;dur=4.87",
    "dense": "wait;dur=0.01, encode;dur=6.21, ann;dur=2.03, total;dur=9.15",
    "reranker": "",
}
DECLARED = {"presets": ["beir"], "metadata": {}}


TIMINGS = "--timings"


def _response(value: object, timings: str = "") -> bytes:
    body = json.dumps(value).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    if timings and TIMINGS in sys.argv:
        head += f"server-timing: {timings}\r\n".encode()
    return head + b"\r\n" + body


def _answers(family: str) -> dict[bytes, bytes]:
    """Prepares whole answers by the end of their path."""
    state = {
        "generation": "demo@1", "published": True, "documents": HITS, "engine": "stub", "stamp": {"model": "1"},
        "declaration": DECLARED, "vectors": None,
    }  # fmt: skip
    step = 1 if family == "lexical" else 3
    hits = [{"id": f"d{number * step % 251:03}", "score": 50.0 - number / 8} for number in range(HITS)]
    alive = {"service": family, "status": "alive", "checks": []}
    return {
        b"/livez": _response(alive),
        b"/readyz": _response({**alive, "status": "ready"}),
        b"/v1/collections": _response({"collections": [state]}),
        b"/search": _response({"generation": "demo@1", "hits": hits}, SEARCH_TIMINGS[family]),
    }


class Stub:
    """One backend of a family."""

    def __init__(self, family: str) -> None:
        self._answers = _answers(family)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = LENGTH.search(head)
                body = await reader.readexactly(int(found[1])) if found else b""
                writer.write(self._answer(head.split(b" ", 2)[1], body))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            wire.reset(writer)

    def _answer(self, path: bytes, body: bytes) -> bytes:
        if path.endswith(b"/documents/get"):
            ids = json.loads(body)["ids"]
            return _response(
                {"documents": [{"id": one, "text": f"text of {one}"} for one in ids], "missing": []},
                "wait;dur=0.01, get;dur=2.85, total;dur=4.11",
            )
        if path.endswith(b"/v1/score"):
            count = len(json.loads(body)["passages"])
            return _response(
                {"model": "stub@1", "weight": 0.5, "scores": [1.0 / (1 + number) for number in range(count)]},
                "wait;dur=0.02, score;dur=612.40, total;dur=614.02",
            )
        for end, answer in self._answers.items():
            if path.endswith(end):
                return answer
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


async def main() -> None:
    ports = {}
    for family in ("lexical", "dense", "reranker"):
        server = await asyncio.start_server(Stub(family).serve, "127.0.0.1", 0, limit=2**22)
        ports[family] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)  # read by who started it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
