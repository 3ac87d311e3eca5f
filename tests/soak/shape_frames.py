"""Places values into requests to a service, and encodes the requests in several ways."""

import gzip
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

GENERATION = "scratch@1"


@dataclass(frozen=True, slots=True)
class Frame:
    """A route and a body template with a value at `%b`."""

    method: str
    path: str
    around: bytes

    def body(self, value: bytes) -> bytes:
        before, _, after = self.around.partition(b"%b")
        return before + value + after


def _storing(collection: str, search: tuple[bytes, ...]) -> tuple[Frame, ...]:
    """Returns the routes that the gateway and both storing services share."""
    at = f"/v1/collections/{collection}"
    return (
        *(Frame("POST", f"{at}/search", one) for one in search),
        Frame("POST", f"{at}/documents", b'{"documents":%b}'),
        Frame("POST", f"{at}/documents", b'{"documents":[{"id":"s1","text":"","metadata":%b}]}'),
        Frame("POST", f"{at}/documents", b'{"documents":[{"id":"s1","text":"","metadata":{"kind":%b}}]}'),
        Frame("POST", f"{at}/documents", b'{"documents":[{"id":"s1","text":%b}]}'),
        Frame("POST", f"{at}/documents", b'{"documents":[{"id":%b,"title":"a"}]}'),
        Frame("POST", f"{at}/documents/delete", b'{"ids":%b}'),
        Frame("PUT", at, b'{"presets":%b}'),
        Frame("PUT", at, b'{"metadata":%b}'),
        Frame("POST", f"{at}/search", b"%b"),
    )


SEARCH = (b'{"query":%b}', b'{"query":"tea","filter":%b}', b'{"query":"tea","exclude_ids":%b}')
GATEWAY = (*SEARCH, b'{"query":"tea","pipeline":%b}', b'{"query":"tea","include":%b}')
FRAMES: Mapping[str, tuple[Frame, ...]] = {
    "gateway": (*_storing("scratch", GATEWAY), Frame("POST", "/v1/collections/scratch/documents/get", b'{"ids":%b}')),
    "lexical": (
        *_storing(GENERATION, SEARCH),
        Frame("POST", f"/v1/collections/{GENERATION}/documents/get", b'{"ids":%b}'),
    ),
    "dense": (
        *_storing(GENERATION, SEARCH),
        Frame("POST", "/v1/embeddings", b'{"input":%b}'),
        Frame("POST", "/embed", b'{"inputs":%b}'),
    ),
    "reranker": (
        Frame("POST", "/v1/score", b'{"query":%b,"passages":["a"]}'),
        Frame("POST", "/v1/score", b'{"query":"tea","passages":%b}'),
        Frame("POST", "/v1/score", b'{"query":"tea","passages":[%b]}'),
        Frame("POST", "/v1/rerank", b'{"query":"tea","documents":%b}'),
        Frame("POST", "/v2/rerank", b'{"query":"tea","model":"m","documents":[{"text":%b}]}'),
        Frame("POST", "/v1/rerank", b'{"query":"tea","documents":["a"],"rank_fields":%b}'),
        Frame("POST", "/rerank", b'{"query":"tea","texts":%b}'),
        Frame("POST", "/rerank", b"%b"),
    ),
    "evaluator": (
        Frame("POST", "/v1/experiments", b"%b"),
        Frame("POST", "/v1/experiments", b'{"dataset":%b}'),
        Frame("POST", "/v1/experiments", b'{"dataset":"/nowhere","pipelines":%b}'),
        Frame("POST", "/v1/experiments", b'{"dataset":"/nowhere","metadata":%b}'),
    ),
}
# A value that says which part of a request it is goes there, or most of its point would be lost.
BELONGS = {
    "documents-": b'{"documents":%b}',
    "document-": b'{"documents":%b}',
    "stages-": b'"pipeline":%b',
    "cuts-": b'"pipeline":%b',
    "reranks-": b'"pipeline":%b',
    "fuses-": b'"pipeline":%b',
    "wide-fuse": b'"pipeline":%b',
    "conditions": b'"filter":%b',
    "one-of-many": b'"filter":%b',
    "ids-": b'{"ids":%b}',
}

Sent = Callable[[Frame, bytes], Iterable[bytes]]


def _head(frame: Frame, *lines: str) -> bytes:
    usual = (f"{frame.method} {frame.path} HTTP/1.1", "host: soak", "connection: close", "x-deadline-ms: 10000", *lines)
    return "\r\n".join((*usual, "", "")).encode()


def plain(frame: Frame, body: bytes, media: str = "application/json") -> Iterable[bytes]:
    return [_head(frame, f"content-type: {media}", f"content-length: {len(body)}"), body]


def _chunked(size: int) -> Sent:
    def sent(frame: Frame, body: bytes) -> Iterator[bytes]:
        yield _head(frame, "content-type: application/json", "transfer-encoding: chunked")
        for start in range(0, len(body), 100_000):
            block = body[start : start + 100_000]
            yield b"".join(
                b"%x\r\n%b\r\n" % (len(block[at : at + size]), block[at : at + size])
                for at in range(0, len(block), size)
            )
        yield b"0\r\n\r\n"

    return sent


def _short(frame: Frame, body: bytes) -> Iterable[bytes]:
    """Announces half of the body in Content-Length; the server takes the rest for another request."""
    return [_head(frame, "content-type: application/json", f"content-length: {len(body) // 2}"), body]


def _recoded(encoding: str) -> Sent:
    def sent(frame: Frame, body: bytes) -> Iterable[bytes]:
        return plain(frame, body.decode(errors="replace")[: 8_000_000 // 4].encode(encoding))

    return sent


def _gzipped(frame: Frame, body: bytes) -> Iterable[bytes]:
    packed = gzip.compress(body, 1)
    lines = ("content-type: application/json", "content-encoding: gzip", f"content-length: {len(packed)}")
    return [_head(frame, *lines), packed]


WAYS: Mapping[str, Sent] = {
    "plain": plain,
    "chunks-of-1": _chunked(1),
    "chunks-of-1000": _chunked(1_000),
    "content-length-half": _short,
    "bom": lambda frame, body: plain(frame, b"\xef\xbb\xbf" + body),
    "utf-16": _recoded("utf-16"),
    "utf-32": _recoded("utf-32"),
    "bad-utf-8": lambda frame, body: plain(frame, body[:-3] + b"\xff" + body[-3:]),
    "trailing-garbage": lambda frame, body: plain(frame, body + b"]"),
    "truncated": lambda frame, body: plain(frame, body[:-1]),
    "leading-spaces": lambda frame, body: plain(frame, b" " * max(0, 7_900_000 - len(body)) + body),
    "gzip": _gzipped,
    "as-text": lambda frame, body: plain(frame, body, "text/plain"),
    "as-vendor-json": lambda frame, body: plain(frame, body, "application/x+json; charset=utf-16"),
}


def frame_for(rng: random.Random, service: str, value: str) -> Frame:
    """Returns the route that a value belongs to, else a random one of the service."""
    frames = FRAMES[service]
    for prefix, part in BELONGS.items():
        if value.startswith(prefix):
            fitting = [frame for frame in frames if part in frame.around]
            if fitting:
                return rng.choice(fitting)
    return rng.choice(frames)
