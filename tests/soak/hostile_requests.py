"""Generates hostile requests, and valid ones with a few bytes or values changed. Seeded, as raw bytes."""

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.soak.hostile_parts import JUNK, ODD_HEADERS, ODD_METHODS, ODD_NAMES, ODD_PATHS, ODD_VALUES, ODD_VERSIONS
from tests.support.processes import STORING

Valid = tuple[str, str, dict[str, object] | None]  # method, path, body
SEARCH: dict[str, object] = {"query": "tea", "top": 5}
FILTER = {"all": [{"field": "year", "op": "gte", "value": 1990}]}
LEGS = [{"kind": "retrieve", "backend": backend} for backend in STORING]
PIPELINE = {"name": "x", "stages": [{"kind": "fuse", "inputs": LEGS}]}
DOCUMENT = {"id": "h1", "title": "a", "text": "tea", "metadata": {"kind": "office", "year": 2000}}
DECLARED: dict[str, object] = {"presets": ["beir"], "metadata": {"year": "number", "kind": "keyword"}}
PROBES: tuple[Valid, ...] = (("GET", "/livez", None), ("GET", "/readyz", None), ("GET", "/metrics", None))


def _storing(at: str) -> tuple[Valid, ...]:
    return (
        ("GET", "/v1/collections", None),
        ("GET", at, None),
        ("PUT", at, DECLARED),
        ("POST", f"{at}/documents", {"documents": [DOCUMENT, {"id": "h2", "text": "lamp"}]}),
        ("POST", f"{at}/documents/delete", {"ids": ["h2"]}),
        ("POST", f"{at}/search", {**SEARCH, "filter": FILTER, "exclude_ids": ["h1"]}),
        ("POST", f"{at}/search", SEARCH),
    )


def _vectors() -> tuple[Valid, ...]:
    """The requests that every vector service takes."""
    at = "/v1/collections/scratch@1"
    return (*_storing(at), ("POST", f"{at}/finish", None), *PROBES)


EXPLAIN: Valid = ("POST", "/v1/collections/scratch@1/explain", {"query": "tea", "documents": [DOCUMENT]})


# What each service takes for good; mutations begin here.
VALID: Mapping[str, tuple[Valid, ...]] = {
    "gateway": (
        *_storing("/v1/collections/scratch"),
        ("POST", "/v1/collections/scratch/search", {**SEARCH, "pipeline": PIPELINE, "include": ["text"]}),
        ("POST", "/v1/collections/scratch/search", {**SEARCH, "pipeline": "hybrid-rerank", "explain": True}),
        ("POST", "/v1/collections/scratch/search", {**SEARCH, "pipeline": "hybrid-colbert", "explain": True}),
        ("PUT", "/v1/collections/scratch", {**DECLARED, "backends": list(STORING)}),
        ("POST", "/v1/collections/scratch/documents/get", {"ids": ["h1"]}),
        ("POST", "/v1/collections/scratch/publish", None),
        ("GET", "/v1/pipelines/hybrid", None),
        *PROBES,
    ),
    "lexical": (
        *_storing("/v1/collections/scratch@1"),
        ("POST", "/v1/collections/scratch@1/documents/get", {"ids": ["h1"]}),
        ("POST", "/v1/collections/scratch@1/finish", None),
        *PROBES,
    ),
    "dense": (
        *_vectors(),
        ("POST", "/v1/embeddings", {"input": ["tea"], "model": "m", "encoding_format": "float"}),
        ("POST", "/embed", {"inputs": "tea", "normalize": True}),
    ),
    "sparse": (*_vectors(), EXPLAIN, ("POST", "/embed_sparse", {"inputs": ["tea", "lamp"], "prompt_name": "query"})),
    "late_interaction": (
        *_vectors(),
        EXPLAIN,
        (
            "POST",
            "/v1/score",
            {"query": "tea", "generation": "scratch@1", "ids": ["h1", "h2"], "passages": {"h2": "lamp"}},
        ),
    ),
    "reranker": (
        ("POST", "/v1/score", {"query": "tea", "passages": ["tea", "lamp"], "partial": True}),
        ("POST", "/v1/rerank", {"query": "tea", "documents": ["tea", {"text": "lamp"}], "top_n": 1}),
        ("POST", "/v2/rerank", {"query": "tea", "model": "m", "documents": ["tea"], "max_tokens_per_doc": 9000}),
        ("POST", "/rerank", {"query": "tea", "texts": ["tea", "lamp"], "return_text": True}),
        *PROBES,
    ),
    "evaluator": (
        ("POST", "/v1/experiments", {"dataset": "/nowhere", "name": "x", "pipelines": ["bm25"]}),
        ("GET", "/v1/experiments/20260101T000000Z-x-00000000", None),
        ("GET", "/v1/experiments/20260101T000000Z-x-00000000/report", None),
        *PROBES,
    ),
}


def encoded(method: str, path: str, body: bytes | None, headers: Sequence[bytes] = ()) -> bytes:
    """Encodes a well-formed request."""
    own = () if body is None else (b"content-type: application/json", b"content-length: %d" % len(body))
    lines = (f"{method} {path} HTTP/1.1".encode(), b"host: soak", b"x-deadline-ms: 8000", *own, *headers, b"", b"")
    return b"\r\n".join(lines) + (body or b"")


def _body(value: dict[str, object] | None) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def _odd_line(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    odd = rng.choice(ODD_METHODS), rng.choice(ODD_PATHS), rng.choice(ODD_VERSIONS)
    usual = method.encode(), path.encode(), b"HTTP/1.1"
    parts = [odd_part if rng.random() < 0.5 else other for odd_part, other in zip(odd, usual, strict=True)]
    content = _body(body) or b""
    return b" ".join(parts) + b"\r\nhost: soak\r\ncontent-length: %d\r\n\r\n" % len(content) + content


def _odd_headers(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    return encoded(method, path, _body(body), rng.sample(ODD_HEADERS, rng.randrange(1, 4)))


def _header_bomb(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    count, length = rng.choice([(5_000, 10), (200, 1_000), (1, 1_000_000), (3, 100_000), (60_000, 2)])
    return encoded(method, path, _body(body), [b"h%d: %b" % (number, b"v" * length) for number in range(count)])


def _smuggled(rng: random.Random, valid: Valid) -> bytes:
    """Builds a request with two contradicting lengths and a second request in the remainder (smuggling)."""
    _, path, body = valid
    inner = b"GET /metrics HTTP/1.1\r\nhost: soak\r\n\r\n"
    content = _body(body) or b"{}"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    coding = rng.choice(
        [b"chunked", b"\tchunked", b"chunked\x0b", b"x, chunked", b"chunked, identity", b"cow", b"Chunked"]
    )
    name = rng.choice([b"transfer-encoding", b"Transfer-Encoding", b"transfer-encoding ", b"transfer_encoding"])
    lengths = [b"content-length: %d" % rng.choice([0, 4, len(content), len(chunked), len(chunked) + len(inner)])]
    headers = [*lengths, b"%b: %b" % (name, coding), b"content-type: application/json"]
    rng.shuffle(headers)
    line = f"POST {path} HTTP/1.1".encode()
    return b"\r\n".join([line, b"host: soak", *headers, b"", b""]) + chunked + inner


def _odd_chunks(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    content = _body(body) or b"{}"
    size = rng.choice([b"-1", b"zz", b"", b"0x5", b"FFFFFFFFFFFFFFFF", b"1" * 40, b"%x;" % len(content) + b"e" * 50_000,
                       b"%X" % len(content), b" %x " % len(content), b"%x;a=\"\x00\"" % len(content)])  # fmt: skip
    end = rng.choice(
        [
            b"\r\n0\r\n\r\n",
            b"0\r\n\r\n",
            b"\r\n0\r\ntrailer: x\r\n\r\n",
            b"\r\n00000\r\n\r\n",
            b"\n0\n\n",
            b"\r\n0\r\n" + b"t: x\r\n" * 4_000 + b"\r\n",
        ]
    )
    lines = (f"{method} {path} HTTP/1.1", "host: soak", "content-type: application/json", "transfer-encoding: chunked")
    return "\r\n".join((*lines, "", "")).encode() + size + b"\r\n" + content + end


def _changed_bytes(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    data = bytearray(encoded(method, path, _body(body)))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randrange(1, 20)]
            case 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
            case _:
                data[at:at] = data[at : at + rng.randrange(1, 200)]
    return bytes(data)


def _nested(rng: random.Random) -> str:
    """Nests lists or objects about as deep as the limits of parsers, validators and writers."""
    depth = rng.choice([30, 120, 400, 600, 900, 1_100, 3_000]) + rng.randrange(60)
    opening, closing = rng.choice([("[", "]"), ('{"a":', "}"), ('[{"all":', "}]")])
    return opening * depth + "1" + closing * depth


def _changed_body(rng: random.Random, valid: Valid) -> bytes:
    """Replaces one to three values or names of a valid body by odd ones."""
    method, path, body = valid
    marks: dict[str, str] = {}

    def changed(value: object, chance: float) -> object:
        if rng.random() < chance:
            mark = f"@@{len(marks)}@@"
            marks[f'"{mark}"'] = rng.choice(ODD_VALUES) if rng.random() < 0.9 else _nested(rng)
            return mark
        if isinstance(value, dict):
            result = {name: changed(part, chance) for name, part in value.items()}
            if rng.random() < chance:
                mark = f"@@{len(marks)}@@"
                marks[f'"{mark}"'] = '"' + rng.choice(ODD_NAMES) + '"'
                result[mark] = changed(1, 0.5)
            return result
        return [changed(part, chance) for part in value] if isinstance(value, list) else value

    content = json.dumps(changed(body or {"query": "tea"}, 0.15))
    for mark, odd in marks.items():
        content = content.replace(mark, odd)
    return encoded(method, path, content.encode(errors="surrogatepass"))


def _junk(rng: random.Random, valid: Valid) -> bytes:
    return rng.choice([rng.choice(JUNK), rng.randbytes(rng.randrange(1, 5_000))])


def _pipelined(rng: random.Random, valid: Valid) -> bytes:
    method, path, body = valid
    return encoded(method, path, _body(body)) * rng.randrange(2, 20) + rng.choice(JUNK)


KINDS: Mapping[str, Callable[[random.Random, Valid], bytes]] = {
    "line": _odd_line,
    "headers": _odd_headers,
    "header-bomb": _header_bomb,
    "smuggling": _smuggled,
    "chunks": _odd_chunks,
    "bytes": _changed_bytes,
    "body": _changed_body,
    "junk": _junk,
    "pipelined": _pipelined,
}
WEIGHTS = {"body": 8, "bytes": 2, "line": 2, "headers": 2}
ENDINGS = ("wait", "wait", "wait", "wait", "half-close", "reset")


def request(service: str, seed: int, number: int) -> tuple[str, bytes, str]:
    """Returns kind, bytes and ending of one hostile request; deterministic in its arguments."""
    rng = random.Random(f"{seed} {service} {number}")
    kind = rng.choices(list(KINDS), [WEIGHTS.get(name, 1) for name in KINDS])[0]
    return kind, KINDS[kind](rng, rng.choice(VALID[service])), rng.choice(ENDINGS)


def requests(service: str, seed: int, count: int) -> Iterable[tuple[int, str, bytes, str]]:
    """Yields the first `count` hostile requests to a service."""
    for number in range(count):
        yield number, *request(service, seed, number)
