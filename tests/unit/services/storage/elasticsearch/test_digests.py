"""The parts by which Elasticsearch sums the digest of an index."""

from services.contracts.content_digest import ContentDigest
from services.storage.elasticsearch.indices import DIGEST, digest_of, digest_parts


def summed(documents: list[tuple[str, str]], times: int = 1) -> str:
    """The digest, as Elasticsearch computes it: in float64, part by part, here `times` the same documents."""
    totals: dict[str, float] = {}
    for one in documents:
        for part, number in digest_parts(*one)[DIGEST].items():  # type: ignore[attr-defined]  # a field of JSON
            totals[part] = totals.get(part, 0.0) + float(number * times)
    return digest_of(totals)


def test_the_sums_of_the_parts_are_the_digest() -> None:
    documents = [(f"d{number}", f"hash {number}") for number in range(3_000)]
    expected = ContentDigest()
    expected.add(documents)
    assert summed(documents) == expected.hexdigest()


def test_the_sums_are_exact_up_to_half_a_billion_documents() -> None:
    one = ("d1", "ÿ" * 32)
    expected = ContentDigest()
    for _ in range(2**6):
        expected.add([one])
    for _ in range(29 - 6):
        expected.combine(ContentDigest(int(expected.hexdigest(), 16)))
    assert summed([one], 2**29) == expected.hexdigest()
