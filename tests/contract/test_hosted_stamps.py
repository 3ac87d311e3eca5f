"""The stamp of an encoder that is another server's API has all that decides its vectors, and no key."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.contract.test_hosted_encoders import hosted, opened
from tests.support.hosted_apis import KEY
from tests.support.served import served


@pytest.fixture
def hashing(tmp_path: Path) -> Iterator[str]:
    with served(build_app(DenseSettings(directory=tmp_path / "theirs", encoder="hashing"))) as url:
        yield url


async def stamp_of(**settings: Any) -> Mapping[str, str]:
    async with opened(hosted("https://api.example", **({"api_dimension": 256} | settings))) as encoder:
        return encoder.stamp


# Another one of each setting that decides a vector. Of the address each part does: an API may serve a model at each.
DECIDING: Mapping[str, Sequence[object]] = {
    "encoder": ["tei"],
    "model": ["another"],
    "api_url": [
        "http://api.example/v1",
        "https://api.example:8443/v1",
        "https://other.example/v1",
        "https://api.example/v2",
        "https://api.example/openai/deployments/one",
        "https://api.example",
    ],
    "api_query_prefix": ["query: "],
    "api_passage_prefix": ["passage: "],
    "api_dimension": [128],
}
# Another one of each setting of the API that decides none.
OTHERS: Mapping[str, object] = {
    "api_key": KEY,
    "api_ca_file": None,
    "api_batch": 7,
    "api_in_flight": 7,
    "api_timeout_s": 7.0,
}


async def test_the_stamp_tells_apart_what_decides_a_vector_and_nothing_else() -> None:
    stamps = [await stamp_of()]
    for setting, values in DECIDING.items():
        stamps += [await stamp_of(**{setting: value}) for value in values]
    assert len({str(stamp) for stamp in stamps}) == len(stamps)
    for setting, value in OTHERS.items():
        assert await stamp_of(**{setting: value}) == stamps[0]
    of_api = {name for name in DenseSettings.model_fields if name.startswith("api_")}
    assert of_api == {name for name in {*DECIDING, *OTHERS} if name.startswith("api_")}


async def test_the_stamp_is_the_same_however_the_address_is_written_or_the_dimension_found(hashing: str) -> None:
    for other in ("https://api.example/v1/", "HTTPS://API.example/v1", "https://api.example:443/v1"):
        assert await stamp_of(api_url=other) == await stamp_of()
    async with opened(hosted(hashing)) as found, opened(hosted(hashing, api_dimension=256)) as given:
        assert found.stamp == given.stamp


async def test_the_stamp_has_no_key() -> None:
    assert KEY not in str(await stamp_of(api_key=KEY))
    for secret in (f"https://api.example/v1?api-key={KEY}", f"https://{KEY}@api.example/v1"):
        with pytest.raises(ValidationError) as raised:
            hosted("", api_url=secret)
        assert KEY not in raised.value.errors(include_input=False)[0]["msg"]
