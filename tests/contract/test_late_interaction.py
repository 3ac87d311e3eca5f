"""The late-interaction service, over HTTP and Edge, with a small ColBERT: its ranking is MaxSim in NumPy."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from services.chassis.deadlines import Deadline
from services.inference.profiles import MODELS_FILE, load_profiles
from services.late_interaction.app import build_app, open_encoder
from services.late_interaction.settings import LateInteractionSettings
from services.vectorservice.encoder import Encoder
from tests.support.token_models import COLBERT, small_token_encoder

TEXTS = {
    "chain": "oil the chain, the bike.",
    "brake": "the brake",
    "both": "oil the brake, the chain",
    "empty": "",
}
QUERY = "oil chain"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A models.yaml beside the folder of its one model, `tiny`."""
    folder = tmp_path_factory.mktemp("models")
    profile = small_token_encoder(folder / "tiny", COLBERT)
    (folder / "models.yaml").write_text(yaml.safe_dump({"models": [profile.model_dump(mode="json")]}))
    return folder / "models.yaml"


@pytest.fixture(params=["onnx", "hashing"])
def settings(request: pytest.FixtureRequest, models: Path, tmp_path: Path) -> LateInteractionSettings:
    return LateInteractionSettings(
        encoder=request.param, model="tiny", models=models.parent, threads=1, passage_tokens=12, directory=tmp_path
    )


@asynccontextmanager
async def service(settings: LateInteractionSettings, models: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = build_app(settings, models)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://late") as client:
            yield client


@pytest.fixture
async def client(settings: LateInteractionSettings, models: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The service, which holds the four documents."""
    async with service(settings, models) as client:
        await ok(client.put("/v1/collections/notes@1", json={}))
        documents = [{"id": one, "text": text} for one, text in TEXTS.items()]
        await ok(client.post("/v1/collections/notes@1/documents", json={"documents": documents}))
        yield client


@pytest.fixture
async def encoder(settings: LateInteractionSettings, models: Path) -> AsyncIterator[Encoder]:
    opened = open_encoder(settings, models)
    yield opened
    await opened.close()


async def ok(asking: Awaitable[httpx.Response]) -> dict[str, Any]:
    answer = await asking
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def max_sim(encoder: Encoder) -> dict[str, float]:
    later = Deadline.after_ms(60_000)
    query = await encoder.encode_query(QUERY, later)
    vectors = await encoder.encode_passages(tuple(TEXTS.values()), later)
    return {one: float((query @ vector.T).max(axis=1).sum()) for one, vector in zip(TEXTS, vectors, strict=True)}


async def test_the_ranking_is_that_of_max_sim(client: httpx.AsyncClient, encoder: Encoder) -> None:
    wanted = sorted((await max_sim(encoder)).items(), key=lambda one: (-one[1], one[0]))
    for exact in (False, True):
        asked = {"query": QUERY, "top": 10, "exact": exact}
        hits = (await ok(client.post("/v1/collections/notes@1/search", json=asked)))["hits"]
        assert [hit["id"] for hit in hits] == [one for one, _ in wanted]
        # Codes of 8 bits: by 1 % of the length of each of the query's tokens at most.
        assert [hit["score"] for hit in hits] == pytest.approx([score for _, score in wanted], abs=0.03)


def test_the_listed_token_encoders_share_the_files_of_encoders() -> None:
    profiles = load_profiles(MODELS_FILE)
    for name, profile in profiles.items():
        if profile.kind == "token-encoder":
            assert profile.files == profiles[name.removesuffix("-tokens")].files
    assert LateInteractionSettings().model in profiles
