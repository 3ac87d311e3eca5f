"""The late-interaction service, over HTTP and Edge, with a small ColBERT: its ranking is MaxSim in NumPy."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.contracts.collections import CollectionDeclaration
from services.contracts.rerank import StoredScoreRequest
from services.inference.profiles import MODELS_FILE, load_profiles
from services.late_interaction.app import build_app, open_encoder
from services.late_interaction.encoder_hashing import HashingTokenEncoder
from services.late_interaction.scoring import scores
from services.late_interaction.settings import LateInteractionSettings
from services.storage.representation import SparseVector, TokenVectors
from services.vectorservice.encoder import Encoder
from services.vectorstore.store import GenerationSpec
from services.vectorstore.store_edge import EdgeStore
from tests.support.opened_client import ok, opened_client
from tests.support.token_models import COLBERT, small_token_encoder
from tests.support.vectors import halved

TEXTS = {"chain": "oil the chain, the bike.", "brake": "the brake", "both": "oil the brake, the chain", "empty": ""}
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
        encoder=request.param,
        model="tiny",
        models=models.parent,
        threads=1,
        passage_tokens=12,
        directory=tmp_path,
        storage="fp16",  # whose scores are those of MaxSim
    )


@pytest.fixture
async def client(settings: LateInteractionSettings, models: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The service, which holds the four documents."""
    async with opened_client(build_app(settings, models)) as client:
        await ok(client.put("/v1/collections/notes@1", json={}))
        documents = [{"id": one, "text": text} for one, text in TEXTS.items()]
        await ok(client.post("/v1/collections/notes@1/documents", json={"documents": documents}))
        yield client


@pytest.fixture
async def encoder(settings: LateInteractionSettings, models: Path) -> AsyncIterator[Encoder]:
    opened = open_encoder(settings, models)
    yield opened
    await opened.close()


async def max_sim(encoder: Encoder) -> dict[str, float]:
    """NumPy's scores of the texts, of vectors in half precision, which stores keep."""
    later = Deadline.after_ms(60_000)
    query = await encoder.encode_query(QUERY, later)
    scores: dict[str, float] = {}
    for one, vector in zip(TEXTS, await encoder.encode_passages(tuple(TEXTS.values()), later), strict=True):
        assert not isinstance(query, SparseVector)
        assert not isinstance(vector, SparseVector)
        scores[one] = float((halved(query) @ halved(vector).T).max(axis=1).sum())
    return scores


async def test_the_ranking_is_that_of_max_sim(client: httpx.AsyncClient, encoder: Encoder) -> None:
    wanted = sorted((await max_sim(encoder)).items(), key=lambda one: (-one[1], one[0]))
    for exact in (False, True):
        asked = {"query": QUERY, "top": 10, "exact": exact}
        hits = (await ok(client.post("/v1/collections/notes@1/search", json=asked)))["hits"]
        assert [hit["id"] for hit in hits] == [one for one, _ in wanted]
        # Codes of 8 bits: by 1 % of the length of each of the query's tokens at most.
        assert [hit["score"] for hit in hits] == pytest.approx([score for _, score in wanted], abs=0.03)


async def score(client: httpx.AsyncClient, ids: Sequence[str], **more: object) -> dict[str, Any]:
    asked = {"query": QUERY, "generation": "notes@1", "ids": ids, **more}
    return await ok(client.post("/v1/score", json=asked))


async def test_stored_vectors_score_as_max_sim_and_texts_only_where_there_is_none(
    client: httpx.AsyncClient, encoder: Encoder
) -> None:
    wanted = await max_sim(encoder)
    given = await score(client, ["empty", "never", "chain", "both"])
    assert given["scores"][1] is None
    assert given["scores"][::2] + given["scores"][3:] == pytest.approx(
        [wanted[one] for one in ("empty", "chain", "both")], abs=1e-5
    )
    assert (given["weight"], given["model"].split("@")[0]) == (0.7, encoder.stamp["model"])
    await ok(client.post("/v1/collections/notes@1/documents/delete", json={"ids": ["brake", "chain"]}))
    texts = {"brake": TEXTS["brake"], "both": "another text"}
    for partial in (False, True):
        again = await score(client, ["brake", "chain", "both"], passages=texts, partial=partial)
        assert again["scores"] == [
            pytest.approx(wanted["brake"], abs=1e-5),
            None,
            pytest.approx(wanted["both"], abs=1e-5),
        ]


async def test_an_explanation_names_the_nearest_token_of_each_token_of_the_query(
    client: httpx.AsyncClient, encoder: Encoder, settings: LateInteractionSettings
) -> None:
    wanted = await max_sim(encoder)
    documents = [{"id": one, "text": TEXTS[one]} for one in ("both", "brake")] + [{"id": "chain", "text": "other"}]
    asked = {"query": QUERY, "documents": documents}
    explained = (await ok(client.post("/v1/collections/notes@1/explain", json=asked)))["explanations"]
    assert [one["id"] for one in explained] == ["both", "brake"]
    for one in explained:
        scores = [match["score"] for match in one["matches"]]
        assert scores == sorted(scores, reverse=True)
        assert sum(scores) == pytest.approx(wanted[one["id"]], abs=5e-3)  # the query is not rounded here
    names = [(match["query"], match["document"]) for match in explained[0]["matches"]]
    if settings.encoder == "hashing":
        assert sorted(names) == [("[END]", "[END]"), ("chain", "chain"), ("oil", "oil")]
    else:
        assert sorted(query for query, _ in names) == ["[CLS]", "[MASK]", "[MASK]", "[Q]", "[SEP]", "chain", "oil"]
        assert {document for _, document in names} <= {"[CLS]", "[D]", "[SEP]", "oil", "the", "brake", "chain"}


async def test_what_cannot_be_scored_is_refused(client: httpx.AsyncClient) -> None:
    asked = {"query": QUERY, "generation": "notes@2", "ids": ["chain"]}
    assert (await client.post("/v1/score", json=asked)).status_code == 404
    wrong = await client.post("/v1/score", json=asked | {"generation": "notes@1", "passages": {"other": "text"}})
    assert wrong.status_code == 422
    assert "'other' is not among `ids`" in wrong.text


class LateAfterOneChunk(HashingTokenEncoder):
    """Encodes passages once; the deadline passes during the second call."""

    calls = 0

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> list[TokenVectors]:
        self.calls += texts != (QUERY,)
        if self.calls > 1:
            raise DeadlineExceeded("It passed.")
        return await super().encode_passages(texts, deadline)


async def test_passages_that_the_deadline_cuts_off_have_no_score_or_are_an_error(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path)
    spec = GenerationSpec(
        "notes@1", HashingTokenEncoder().representation, HashingTokenEncoder.stamp, CollectionDeclaration()
    )
    await store.create(spec)
    passages = {f"d{number:02}": f"oil {number}" for number in range(20)}
    asked = StoredScoreRequest(query=QUERY, generation="notes@1", ids=tuple(passages), passages=passages, partial=True)
    given = await scores(store, LateAfterOneChunk(), asked, Deadline.after_ms(60_000))
    assert [one is not None for one in given] == [True] * 8 + [False] * 12
    with pytest.raises(DeadlineExceeded):
        await scores(store, LateAfterOneChunk(), asked.model_copy(update={"partial": False}), Deadline.after_ms(60_000))
    await store.close()


def test_the_listed_token_encoders_share_the_files_of_encoders() -> None:
    profiles = load_profiles(MODELS_FILE)
    for name, profile in profiles.items():
        if profile.kind == "token-encoder":
            assert profile.files == profiles[name.removesuffix("-tokens")].files
    assert LateInteractionSettings().model in profiles
