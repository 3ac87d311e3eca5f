"""An encoder that is another server's API: over our own dense service, which speaks both dialects, and its faults."""

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, DeadlineExceeded, Overloaded, ProblemError, Unavailable, UpstreamFailed
from services.chassis.settings.configuration import ConfigurationError
from services.dense.app import build_app, open_encoder
from services.dense.encoder import DenseEncoder
from services.dense.encoder_hosted import HostedEncoder
from services.dense.settings import BgeSettings, DenseSettings
from tests.contract.encoder import EncoderSuite
from tests.support.certificates import LOCAL, Certificates
from tests.support.models import ENCODER, fetched
from tests.support.passages import PASSAGES, QUERY, soon
from tests.support.processes import free_port
from tests.support.served import on_a_port, served

KEY = "sk-hosted-0123456789"
DOCUMENTS = [{"id": f"d{place}", "text": text} for place, text in enumerate(PASSAGES)]


def hosted(url: str, encoder: str = "openai", **more: Any) -> DenseSettings:
    url = f"{url}/v1" if encoder == "openai" else url
    return DenseSettings(**({"encoder": encoder, "api_url": url, "model": "theirs"} | more))


@asynccontextmanager
async def opened(settings: DenseSettings) -> AsyncIterator[DenseEncoder]:
    encoder = open_encoder(settings)
    try:
        yield encoder
    finally:
        await encoder.close()


@pytest.fixture(scope="module")
def hashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(build_app(DenseSettings(directory=tmp_path_factory.mktemp("theirs"), encoder="hashing"))) as url:
        yield url


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = fetched(ENCODER).parent
    with served(build_app(DenseSettings(directory=tmp_path_factory.mktemp("theirs"), models=models))) as url:
        yield url


@pytest.mark.integration
class TestOpenAI(EncoderSuite):
    @pytest.fixture
    async def encoder(self, onnx: str) -> AsyncIterator[DenseEncoder]:
        async with opened(hosted(onnx, "openai")) as encoder:
            yield encoder


class TestTei(EncoderSuite):
    @pytest.fixture
    async def encoder(self, hashing: str) -> AsyncIterator[DenseEncoder]:
        async with opened(hosted(hashing, "tei")) as encoder:
            yield encoder


@asynccontextmanager
async def service(settings: DenseSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a dense service that holds the generation `c@1`, without documents."""
    app = build_app(settings)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://dense/v1/collections/c@1") as client,
    ):
        assert (await client.put("http://dense/v1/collections/c@1", json={})).status_code == 200
        yield client


@pytest.mark.parametrize("encoder", ["openai", "tei"])
async def test_a_service_ranks_by_an_api_as_the_service_behind_it_does(
    hashing: str, tmp_path: Path, encoder: str
) -> None:
    rankings = []
    by_api = hosted(hashing, encoder, api_batch=2, query_cache_mb=1)
    for settings in (DenseSettings(encoder="hashing"), by_api):
        async with service(settings.model_copy(update={"directory": tmp_path / settings.encoder})) as client:
            report = (await client.post("/documents", json={"documents": DOCUMENTS})).json()
            assert (report["indexed"], report["encoded"]) == (len(DOCUMENTS), len(DOCUMENTS))
            rankings.append((await client.post("/search", json={"query": QUERY, "top": 10})).json()["hits"])
    own, theirs = rankings
    assert [hit["id"] for hit in theirs] == [hit["id"] for hit in own]
    assert [hit["score"] for hit in theirs] == pytest.approx([hit["score"] for hit in own], abs=1e-6)


class ScriptedApi:
    """An API of OpenAI's dialect that gives its scripted answers, then right ones: [3, 4] for every text."""

    def __init__(self, *script: Response) -> None:
        self.script = deque(script)
        self.asked: list[tuple[httpx.Headers, Any]] = []
        self.held = ""  # a text that gets no answer meanwhile
        self.at_once = self.most_at_once = 0

    async def answer(self, request: Request) -> Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            body = await request.json()
            self.asked.append((httpx.Headers(request.headers.raw), body))
            await asyncio.sleep(0.02)
            while self.held in body["input"]:  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.01)
            return self.script.popleft() if self.script else right(len(body["input"]))
        finally:
            self.at_once -= 1

    @contextmanager
    def served(self) -> Iterator[str]:
        app: Any = Starlette(routes=[Route("/v1/embeddings", self.answer, methods=["POST"])])
        with served(app) as url:
            try:
                yield url
            finally:
                self.held = ""


def right(texts: int) -> Response:
    rows = [{"index": place, "embedding": [3.0, 4.0]} for place in range(texts)]
    return JSONResponse({"data": rows[::-1]})


def refusal(status: int, said: str = "no", **headers: str) -> Response:
    return JSONResponse(
        {"error": {"message": said}}, status, {name.replace("_", "-"): one for name, one in headers.items()}
    )


async def failing(api: ScriptedApi, deadline_ms: int = 60_000, **settings: Any) -> ProblemError:
    """Returns the error by which one passage fails."""
    with api.served() as url:
        async with opened(hosted(url, **({"api_dimension": 2} | settings))) as encoder:
            with pytest.raises(ProblemError) as raised:
                await encoder.encode_passages(["oil"], Deadline.after_ms(deadline_ms))
    return raised.value


async def test_vectors_are_in_the_order_of_the_texts_and_of_length_one() -> None:
    rows = {1: [0, 3e38], 0: [3e-40, 4e-40], 2: [0, 0]}
    api = ScriptedApi(JSONResponse({"data": [{"index": place, "embedding": row} for place, row in rows.items()]}))
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2)) as encoder:
            vectors = await encoder.encode_passages(["a", "b", "c"], soon())
    assert vectors == pytest.approx(np.array([[0.6, 0.8], [0, 1], [0, 0]]), abs=1e-4)  # 3e-40 has few digits


async def test_the_api_gets_model_key_prefixes_and_dimension_and_no_blank_text() -> None:
    api = ScriptedApi()
    with api.served() as url:
        settings = hosted(url, api_key=KEY, api_dimension=2, api_query_prefix="query: ", api_passage_prefix="passage: ")
        async with opened(settings) as encoder:
            await encoder.encode_query("oil", soon())
            blank = await encoder.encode_passages(["", "chain", " \n"], soon())
    sent = {"model": "theirs", "encoding_format": "float", "dimensions": 2}
    assert [body for _, body in api.asked] == [
        sent | {"input": ["query: oil"]},
        sent | {"input": ["passage: chain"]},
    ]
    assert {headers["authorization"] for headers, _ in api.asked} == {f"Bearer {KEY}"}
    assert blank == pytest.approx(np.array([[0, 0], [0.6, 0.8], [0, 0]]))


async def test_a_refused_key_is_named_by_its_setting_and_not_shown() -> None:
    for status in (401, 403):
        error = await failing(ScriptedApi(refusal(status, f"Incorrect API key: {KEY}")), api_key=KEY)
        assert isinstance(error, UpstreamFailed)
        assert "DENSE_API_KEY" in error.detail
        assert KEY not in error.detail


async def test_refused_texts_are_the_callers_fault_and_what_the_api_says_is_told_without_the_key() -> None:
    error = await failing(ScriptedApi(refusal(400, f"maximum context length is 8192 tokens {KEY}")), api_key=KEY)
    assert isinstance(error, BadInput)
    assert "maximum context length is 8192 tokens" in error.detail
    assert KEY not in error.detail


async def test_a_text_that_the_api_refuses_keeps_no_other_document_from_being_stored(tmp_path: Path) -> None:
    class Fussy(ScriptedApi):
        async def answer(self, request: Request) -> Response:
            texts = (await request.json())["input"]
            return refusal(400, "too long") if any("long" in text for text in texts) else right(len(texts))

    documents = [{"id": f"d{place}", "text": f"{'long' if place in (3, 8) else 'text'} {place}"} for place in range(9)]
    with Fussy().served() as url:
        async with service(hosted(url, api_dimension=2).model_copy(update={"directory": tmp_path})) as client:
            report = (await client.post("/documents", json={"documents": documents})).json()
    assert (report["indexed"], report["encoded"]) == (7, 7)
    assert [one["id"] for one in report["errors"]] == ["d3", "d8"]
    assert all("too long" in one["reason"] and not one["retryable"] for one in report["errors"])


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_api_is_asked_again_after_the_time_that_it_names(status: int) -> None:
    api = ScriptedApi(refusal(status, retry_after="1"))
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2)) as encoder:
            begun = time.monotonic()
            assert await encoder.encode_query("oil", soon()) == pytest.approx(np.array([0.6, 0.8]))
    assert len(api.asked) == 2
    assert time.monotonic() - begun >= 1


async def test_an_api_that_stays_busy_beyond_the_deadline_is_told_at_once_with_its_time() -> None:
    begun = time.monotonic()
    error = await failing(ScriptedApi(refusal(429, retry_after="70")))
    assert isinstance(error, Overloaded)
    assert error.retry_after_s == 70
    error = await failing(ScriptedApi(refusal(500)), deadline_ms=400)
    assert isinstance(error, Unavailable)
    assert "DENSE_API_URL" in error.detail
    assert time.monotonic() - begun < 30


async def test_a_request_that_hangs_is_sent_again() -> None:
    api = ScriptedApi()
    api.held = "oil"
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2, api_timeout_s=0.2)) as encoder:
            with pytest.raises(Unavailable, match="DENSE_API_TIMEOUT_S"):
                await encoder.encode_query("oil", Deadline.after_ms(700))
            waiting = asyncio.create_task(encoder.encode_query("oil", soon()))
            while len(api.asked) < 2:  # noqa: ASYNC110  # another thread appends
                await asyncio.sleep(0.01)
            api.held = ""
            assert await waiting == pytest.approx(np.array([0.6, 0.8]))


async def test_a_deadline_ends_the_work_and_the_batches_that_have_not_begun() -> None:
    api = ScriptedApi()
    api.held = "oil"
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2, api_batch=1, api_in_flight=1)) as encoder:
            with pytest.raises(DeadlineExceeded):
                await encoder.encode_passages(["oil", "chain"], Deadline.after_ms(300))
            await encoder.encode_passages(["brake"], soon())
    assert [body["input"] for _, body in api.asked] == [["oil"], ["brake"]]


async def test_passages_have_so_many_requests_in_flight_and_a_query_waits_for_none_of_them() -> None:
    api = ScriptedApi()
    with api.served() as url:
        async with opened(hosted(url, api_dimension=2, api_batch=1, api_in_flight=3)) as encoder:
            assert len(await encoder.encode_passages(["chain"] * 20, soon())) == 20
            assert (len(api.asked), api.most_at_once) == (20, 3)
            api.held = "oil"
            passages = asyncio.create_task(encoder.encode_passages(["oil"] * 20, soon()))
            while api.at_once < 3:  # noqa: ASYNC110  # another thread counts
                await asyncio.sleep(0.01)
            await encoder.encode_query("chain", soon())
            assert not passages.done()
            passages.cancel()


WRONG = {
    "too few": right(1),
    "an index twice": JSONResponse({"data": [{"index": 0, "embedding": [3, 4]}] * 2}),
    "another dimension": JSONResponse({"data": [{"index": place, "embedding": [1, 2, 3]} for place in range(2)]}),
    "no number": JSONResponse({"data": [{"index": place, "embedding": [1, None]} for place in range(2)]}),
    "infinite": JSONResponse({"data": [{"index": place, "embedding": [1, 1e39]} for place in range(2)]}),
    "another shape": JSONResponse([[3, 4], [3, 4]]),
    "no JSON": Response("<html>"),
    "moved": Response(status_code=308, headers={"location": "http://127.0.0.1:9/"}),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_answer_is_said_and_nothing_is_stored(tmp_path: Path, wrong: str) -> None:
    api = ScriptedApi()
    with api.served() as url:
        async with service(hosted(url, directory=tmp_path)) as client:
            api.script.append(WRONG[wrong])
            documents = [{"id": "a", "text": "oil"}, {"id": "b", "text": "chain"}]
            answer = await client.post("/documents", json={"documents": documents})
            assert (answer.status_code, "DENSE_API_URL" in answer.json()["detail"]) == (502, True)
            assert (await client.get("http://dense/v1/collections/c@1")).json()["documents"] == 0
            assert (await client.post("/documents", json={"documents": documents})).json()["indexed"] == 2


async def test_an_api_that_is_not_there_is_unavailable_and_its_address_is_not_shown() -> None:
    port, begun = free_port(), time.monotonic()
    for settings in (hosted(f"http://127.0.0.1:{port}"), hosted(f"http://127.0.0.1:{port}", api_dimension=2)):
        with pytest.raises(Unavailable, match="DENSE_API_URL cannot be reached") as raised:
            async with opened(settings) as encoder:
                await encoder.encode_query("oil", soon())
        assert str(port) not in raised.value.detail
    assert time.monotonic() - begun < 20  # not asked again up to the deadline


@asynccontextmanager
async def answering(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Yields the address of a server that ends each connection after one of these answers, the last one again and
    again; and those that it gave."""
    given: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        given.append(answers[min(len(given), len(answers) - 1)])
        writer.write(given[-1])
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", given


async def test_a_connection_that_ends_without_an_answer_is_replaced() -> None:
    whole = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + bytes(right(1).body)
    async with answering(b"", whole) as (url, given), opened(hosted(url, api_dimension=2)) as encoder:
        assert await encoder.encode_query("oil", soon()) == pytest.approx(np.array([0.6, 0.8]))
    assert len(given) == 2


@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nno"])
async def test_a_server_that_speaks_something_else_is_no_api(said: bytes) -> None:
    async with answering(said) as (url, given), opened(hosted(url, api_dimension=2)) as encoder:
        with pytest.raises(UpstreamFailed, match="DENSE_API_URL"):
            await encoder.encode_query("oil", soon())
    assert len(given) == 1


async def test_the_authority_of_an_api_is_checked_by_its_file(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    theirs = DenseSettings(directory=tmp_path / "dense", encoder="hashing", **certificates.issue(*LOCAL).settings)
    app = build_app(theirs)
    async with app.router.lifespan_context(app), on_a_port(app, theirs) as url:
        given: dict[str, Any] = {"api_dimension": 256, "api_key": KEY}
        async with opened(hosted(url, api_ca_file=certificates.ca_file, **given)) as encoder:
            assert len(await encoder.encode_query("oil", soon())) == 256
        async with opened(hosted(url, **given)) as encoder:
            with pytest.raises(Unavailable, match=r"certificate.*DENSE_API_CA_FILE"):
                await encoder.encode_query("oil", soon())
    with pytest.raises(ConfigurationError, match="DENSE_API_CA_FILE"):
        HostedEncoder(hosted("https://api.example", api_ca_file=tmp_path / "none.pem", api_dimension=2))


def test_an_api_needs_an_address_and_a_model_and_its_key_stays_off_plain_networks() -> None:
    for missing in ("api_url", "model"):
        given = {"encoder": "tei", "api_url": "http://127.0.0.1:8080", "model": "theirs"}
        del given[missing]
        with pytest.raises(ValidationError, match=re.escape(f"DENSE_BGE_{missing.upper()}: set it too")):
            BgeSettings(**given)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="DENSE_API_KEY would travel unencrypted to tei") as raised:
        hosted("http://tei", api_key=KEY)
    assert KEY not in json.dumps(raised.value.errors(include_input=False), default=str)
    plain: dict[str, Any] = {"trusted_plain": ["tei"]}
    for url, more in (("http://tei", plain), ("https://tei", {}), ("http://localhost:1", {})):
        assert hosted(url, api_key=KEY, **more).api_key is not None
