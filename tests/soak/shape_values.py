"""Generates JSON values of a given size in bytes that are expensive for parsers, validators or analysers."""

import random
from collections.abc import Callable, Mapping

Value = Callable[[random.Random, int], bytes]


def _many(item: bytes) -> Value:
    """Fills the size with a list of equal items."""
    return lambda rng, size: b"[" + b",".join([item] * max(1, size // (len(item) + 1))) + b"]"


def _string(unit: bytes) -> Value:
    """Fills the size with a string of one repeated unit."""
    return lambda rng, size: b'"' + unit * max(1, size // len(unit)) + b'"'


def _deep(opening: bytes, middle: bytes, closing: bytes) -> Value:
    """Nests to the full size, or to a random depth around parsers' limits."""

    def value(rng: random.Random, size: int) -> bytes:
        depth = rng.choice([size // len(opening + closing), rng.randrange(20, 3_000)])
        return opening * depth + middle + closing * depth

    return value


def _brushes(rng: random.Random, size: int) -> bytes:
    """Fills the size with lists nested below every depth limit."""
    depth = rng.randrange(5, 60)
    return b"[" + b",".join([b"[" * depth + b"]" * depth] * (size // (2 * depth + 1))) + b"]"


def _numbered(form: str) -> Value:
    """Fills the size with distinct items made from a format with one number."""

    def value(rng: random.Random, size: int) -> bytes:
        parts, length = [], 0
        while length < size:
            parts.append((form % (length % 99_991)).encode())
            length += len(parts[-1]) + 1
        return b"[" + b",".join(parts) + b"]"

    return value


def _keys(rng: random.Random, size: int) -> bytes:
    """Fills the size with an object of distinct valid field names."""
    count = size // 12
    return b"{" + b",".join(b'"f%07d":1' % number for number in range(count)) + b"}"


def _same_key(rng: random.Random, size: int) -> bytes:
    return b"{" + b",".join([b'"a":[]'] * (size // 7)) + b"}"


def _long_key(rng: random.Random, size: int) -> bytes:
    return b'{"' + b"k" * size + b'":1}'


def _random_tree(rng: random.Random, size: int) -> bytes:
    """Generates a random tree of lists and objects down to scalars."""
    leaves = (b"1", b"-0.0", b"null", b"true", b'""', b'"a"', b"[]", b"{}", b"1e5", b'"\\u0301"')

    def grown(depth: int) -> bytes:
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(leaves)
        parts = [grown(depth - 1) for _ in range(rng.randrange(1, 6))]
        if rng.random() < 0.5:
            return b"[" + b",".join(parts) + b"]"
        return b"{" + b",".join(b'"%d":%b' % (number, part) for number, part in enumerate(parts)) + b"}"

    branch = grown(rng.randrange(3, 8))
    return b"[" + b",".join([branch] * max(1, size // (len(branch) + 1))) + b"]"


def _words(rng: random.Random, size: int) -> bytes:
    """Generates a text of distinct words: a dictionary entry for each."""
    parts, length = [], 0
    while length < size:
        parts.append(b"%x" % rng.getrandbits(40))
        length += len(parts[-1]) + 1
    return b'"' + b" ".join(parts) + b'"'


def _fuses(rng: random.Random, size: int) -> bytes:
    """A pipeline of fuses in fuses, two inputs each."""
    leaf = b'{"kind":"retrieve","backend":"lexical"}'
    opening, closing = b'{"kind":"fuse","inputs":[' + leaf + b",", b"]}"
    depth = min(size // len(opening + closing), rng.choice([4, 100, 400, 100_000]))
    return b'{"name":"x","stages":[' + opening * depth + leaf + closing * depth + b"]}"


def _stages(item: bytes, first: bytes = b"") -> Value:
    """A pipeline of as many equal stages as fit, at most 24,000."""

    def value(rng: random.Random, size: int) -> bytes:
        count = min(24_000, size // (len(item) + 1))
        return b'{"name":"x","stages":[' + first + b",".join([item] * count) + b"]}"

    return value


def _wide_fuse(rng: random.Random, size: int) -> bytes:
    """Eight inputs of eight inputs of eight …: as many legs as fit."""
    node = b'{"kind":"retrieve","backend":"dense"}'
    while len(node) * 8 < size:
        node = b'{"kind":"fuse","inputs":[' + b",".join([node] * 8) + b"]}"
    return b'{"name":"x","stages":[' + node + b"]}"


def _conditions(rng: random.Random, size: int) -> bytes:
    one = b'{"field":"year","op":"gte","value":1990}'
    return b'{"all":[' + b",".join([one] * (size // (len(one) + 1))) + b"]}"


def _one_of_many(rng: random.Random, size: int) -> bytes:
    values = b",".join(b"%d" % number for number in range(size // 8))
    return b'{"all":[{"field":"year","op":"in","value":[' + values + b"]}]}"


def _documents(count: int, unit: bytes, identity: bytes = b"s%d") -> Value:
    """Generates `count` whole documents that share the size among their texts."""

    def value(rng: random.Random, size: int) -> bytes:
        each = unit * max(1, (size // count - 40) // len(unit))
        return (
            b"[" + b",".join(b'{"id":"%b","text":"%b"}' % (identity % number, each) for number in range(count)) + b"]"
        )

    return value


def _documents_with_metadata(rng: random.Random, size: int) -> bytes:
    """Whole documents with as many distinct fields each as fit."""
    count, fields = 64, max(1, size // 64 // 14)
    body = b",".join(b'"f%06d":"x"' % number for number in range(fields))
    documents = (b'{"id":"s%d","text":"","metadata":{%b}}' % (number, body) for number in range(count))
    return b"[" + b",".join(documents) + b"]"


def _wrong_documents(rng: random.Random, size: int) -> bytes:
    """Documents each of which has several errors."""
    one = b'{"x":1,"title":2,"text":[],"y":{}}'
    return b"[" + b",".join([one] * (size // (len(one) + 1))) + b"]"


def _big_integers(rng: random.Random, size: int) -> bytes:
    one = b"9" * rng.choice([300, 4_000, 5_000])
    return b"[" + b",".join([one] * max(1, size // len(one))) + b"]"


# By what is in them. Strings of one unit come first to analysers and normalisers, the others to parsers and validators.
VALUES: Mapping[str, Value] = {
    "empty-lists": _many(b"[]"),
    "empty-objects": _many(b"{}"),
    "empty-strings": _many(b'""'),
    "nulls": _many(b"null"),
    "digits": _many(b"7"),
    "floats": _many(b"1e1"),
    "long-floats": _many(b"0." + b"1234567890" * 30),
    "infinite-floats": _many(b"1e400"),
    "pairs": _many(b'{"a":1}'),
    "distinct-strings": _numbered('"w%d"'),
    "distinct-objects": _numbered('{"n%d":1}'),
    "long-strings": _many(b'"' + b"y" * 600 + b'"'),
    "ids-of-512-bytes": _numbered('"' + "i" * 500 + '%d"'),
    "deep-lists": _deep(b"[", b"", b"]"),
    "deep-objects": _deep(b'{"a":', b"1", b"}"),
    "deep-both": _deep(b'[{"a":', b"1", b"}]"),
    "brushes": _brushes,
    "random-tree": _random_tree,
    "many-keys": _keys,
    "one-key-often": _same_key,
    "long-key": _long_key,
    "integer-of-megabytes": lambda rng, size: b"1" * size,
    "big-integers": _big_integers,
    "string-ascii": _string(b"x"),
    "string-words": _words,
    "string-spaces": _string(b" "),
    "string-stop-words": _string(b"the of "),
    "string-punctuation": _string(b".,;-"),
    "string-marks": _string("\u0301".encode()),
    "string-mixed-marks": _string("\u0315\u0300\u05ae\u0334".encode()),
    "string-letter-and-marks": _string(("a" + "\u0300\u0316" * 40).encode()),
    "string-escaped-marks": _string(b"\\u0301"),
    "string-pairs-of-surrogates": _string(b"\\ud83d\\ude00"),
    "string-lone-surrogates": _string(b"\\ud800"),
    "string-controls": _string(b"\\u0000"),
    "string-emoji": _string("😀".encode()),
    "string-ligature": _string("\ufdfa".encode()),
    "string-jamo": _string("\u1100\u1161\u11a8".encode()),
    "string-backslashes": _string(b"\\\\"),
    "fuses-in-fuses": _fuses,
    "wide-fuse": _wide_fuse,
    "stages-24000": _stages(b'{"kind":"retrieve","backend":"lexical"}'),
    "cuts-24000": _stages(b'{"kind":"cut","top":5}', b'{"kind":"retrieve","backend":"lexical"},'),
    "reranks-24000": _stages(b'{"kind":"rerank"}', b'{"kind":"retrieve","backend":"lexical"},'),
    "conditions": _conditions,
    "one-of-many": _one_of_many,
    "documents-256-words": _documents(256, b"kettle lamp water "),
    "documents-256-one-word": _documents(256, b"w"),
    "document-of-all": _documents(1, b"kettle lamp water "),
    "documents-256-marks": _documents(256, "e\u0301\u0316".encode()),
    "documents-60000": _documents(60_000, b"w"),
    "documents-long-ids": _documents(256, b"w ", b"i" * 490 + b"%d"),
    "documents-metadata": _documents_with_metadata,
    "documents-wrong": _wrong_documents,
}
