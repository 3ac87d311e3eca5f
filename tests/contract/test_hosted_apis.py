"""What our clients of vendors' APIs have in common: keys, retries, deadlines, certificates, and faults of an API."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, DeadlineExceeded, Overloaded, ProblemError, Unavailable, UpstreamFailed
from services.chassis.settings.configuration import ConfigurationError
from services.dense.app import build_app as build_dense
from services.dense.settings import BgeSettings, DenseSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.certificates import LOCAL, Certificates
from tests.support.hosted_apis import DIALECTS, KEY, OPENAI, Dialect, ScriptedApi, asking, refusal
from tests.support.passages import soon
from tests.support.processes import free_port
from tests.support.served import on_a_port


@pytest.fixture(params=[*DIALECTS.values()], ids=[*DIALECTS])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    found: Dialect = request.param
    return found


async def failing(api: ScriptedApi, deadline_ms: int = 60_000, **settings: Any) -> ProblemError:
    """Returns the error by which one text fails."""
    async with api.asked_by(**settings) as ask:
        with pytest.raises(ProblemError) as raised:
            await ask(["oil"], Deadline.after_ms(deadline_ms))
    return raised.value


async def test_a_refused_key_is_named_by_its_setting_and_not_shown(dialect: Dialect) -> None:
    for status in (401, 403):
        api = ScriptedApi(refusal(status, f"Incorrect API key: {KEY}"), dialect=dialect)
        error = await failing(api, api_key=KEY)
        assert isinstance(error, UpstreamFailed)
        assert f"{dialect.prefix}_API_KEY" in error.detail
        assert KEY not in error.detail
        assert api.asked[0][0]["authorization"] == f"Bearer {KEY}"


async def test_refused_texts_are_the_callers_fault_and_what_the_api_says_is_told_without_the_key(
    dialect: Dialect,
) -> None:
    said = "maximum context length is 8192 tokens"
    error = await failing(ScriptedApi(refusal(400, f"{said} {KEY}"), dialect=dialect), api_key=KEY)
    assert isinstance(error, BadInput)
    assert said in error.detail
    assert KEY not in error.detail


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_api_is_asked_again_after_the_time_that_it_names(dialect: Dialect, status: int) -> None:
    api = ScriptedApi(refusal(status, retry_after="1"), dialect=dialect)
    async with api.asked_by() as ask:
        begun = time.monotonic()
        assert len(await ask(["oil"], soon())) == 1
    assert len(api.asked) == 2
    assert time.monotonic() - begun >= 1


async def test_an_api_that_stays_busy_beyond_the_deadline_is_told_at_once_with_its_time(dialect: Dialect) -> None:
    begun = time.monotonic()
    error = await failing(ScriptedApi(refusal(429, retry_after="70"), dialect=dialect))
    assert isinstance(error, Overloaded)
    assert error.retry_after_s == 70
    error = await failing(ScriptedApi(refusal(500), dialect=dialect), deadline_ms=400)
    assert isinstance(error, Unavailable)
    assert f"{dialect.prefix}_API_URL" in error.detail
    assert time.monotonic() - begun < 30


async def test_a_request_that_hangs_is_sent_again(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    api.held = "oil"
    async with api.asked_by(api_timeout_s=0.2) as ask:
        with pytest.raises(Unavailable, match=f"{dialect.prefix}_API_TIMEOUT_S"):
            await ask(["oil"], Deadline.after_ms(700))
        waiting = asyncio.create_task(ask(["oil"], soon()))
        while len(api.asked) < 2:  # noqa: ASYNC110  # another thread appends
            await asyncio.sleep(0.01)
        api.held = ""
        assert len(await waiting) == 1


async def test_a_deadline_ends_the_work_and_the_batches_that_have_not_begun(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    api.held = "oil"
    async with api.asked_by(api_batch=1, api_in_flight=1) as ask:
        with pytest.raises(DeadlineExceeded):
            await ask(["oil", "chain"], Deadline.after_ms(300))
        await ask(["brake"], soon())
    assert api.texts == [["oil"], ["brake"]]


def wrong_answers(dialect: Dialect) -> dict[str, Response]:
    """Wrong answers to two texts."""
    number = dialect.number
    vectors = dialect is OPENAI
    twice = dialect.items([{"index": 0, dialect.field: number}] * 2)
    not_a_number = json.dumps(dialect.items([{"index": place, dialect.field: float("nan")} for place in range(2)]))
    found = {
        "too few": dialect.right(1),
        "too many": dialect.right(3),
        "an index twice": JSONResponse(twice),
        "another dimension": dialect.answer(*[[1, 2, 3]] * 2),
        "no number": dialect.answer(*[[1, None] if vectors else None] * 2),
        "infinite": dialect.answer(*[[1, 1e39] if vectors else 1e39] * 2),
        "not a number": Response(not_a_number),
        "another shape": JSONResponse([number, number]),
        "no JSON": Response("<html>"),
        "moved": Response(status_code=308, headers={"location": "http://127.0.0.1:9/"}),
    }
    return found if vectors else found | {"a logit": dialect.answer(0.5, -2.0), "above 1": dialect.answer(1.1, 0.5)}


async def test_a_wrong_answer_is_said_and_the_next_one_counts(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    async with api.asked_by() as ask:
        for wrong, answer in wrong_answers(dialect).items():
            api.script.append(answer)
            with pytest.raises(UpstreamFailed, match=f"{dialect.prefix}_API_URL"):
                pytest.fail(f"{wrong}: {await ask(['oil', 'chain'], soon())}")
        assert len(await ask(["oil", "chain"], soon())) == 2


async def test_an_api_that_is_not_there_is_unavailable_and_its_address_is_not_shown(dialect: Dialect) -> None:
    port, begun = free_port(), time.monotonic()
    for found_at_start in ({}, {"api_dimension": None}):
        with pytest.raises(Unavailable, match=f"{dialect.prefix}_API_URL cannot be reached") as raised:
            async with asking(dialect.hosted(f"http://127.0.0.1:{port}", **found_at_start)) as ask:
                await ask(["oil"], soon())
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


async def test_a_connection_that_ends_without_an_answer_is_replaced(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.dialects.hosted_api.FIRST_PAUSE_S", 0.05)
    whole = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + bytes(dialect.right(1).body)
    async with answering(b"", whole) as (url, given), asking(dialect.hosted(url)) as ask:
        assert len(await ask(["oil"], soon())) == 1
    assert len(given) == 2


@pytest.mark.parametrize("said", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nno"])
async def test_a_server_that_speaks_something_else_is_no_api(dialect: Dialect, said: bytes) -> None:
    async with answering(said) as (url, given), asking(dialect.hosted(url)) as ask:
        with pytest.raises(UpstreamFailed, match=f"{dialect.prefix}_API_URL"):
            await ask(["oil"], soon())
    assert len(given) == 1


async def test_the_authority_of_an_api_is_checked_by_its_file(dialect: Dialect, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    tls = certificates.issue(*LOCAL).settings
    theirs: DenseSettings | RerankerSettings
    if dialect is OPENAI:
        theirs = DenseSettings(directory=tmp_path / "dense", encoder="hashing", **tls)
        app, given = build_dense(theirs), {"api_key": KEY, "api_dimension": 256}
    else:
        theirs = RerankerSettings(scorer="overlap", **tls)
        app, given = build_reranker(theirs), {"api_key": KEY}
    async with app.router.lifespan_context(app), on_a_port(app, theirs) as url:
        async with asking(dialect.hosted(url, api_ca_file=certificates.ca_file, **given)) as ask:
            assert len(await ask(["oil"], soon())) == 1
        async with asking(dialect.hosted(url, **given)) as ask:
            with pytest.raises(Unavailable, match=rf"certificate.*{dialect.prefix}_API_CA_FILE"):
                await ask(["oil"], soon())
    with pytest.raises(ConfigurationError, match=f"{dialect.prefix}_API_CA_FILE"):
        async with asking(dialect.hosted("https://api.example", api_ca_file=tmp_path / "none.pem")):
            pass


def test_an_api_needs_an_address_and_a_model_and_its_key_stays_off_plain_networks(dialect: Dialect) -> None:
    settings, prefix = (BgeSettings, "DENSE_BGE") if dialect is OPENAI else (dialect.settings, dialect.prefix)
    for missing in ("api_url", "model"):
        given: Any = {"encoder": "tei", "scorer": "tei", "api_url": "http://127.0.0.1:8080", "model": "theirs"}
        del given[missing]
        with pytest.raises(ValidationError, match=re.escape(f"{prefix}_{missing.upper()}: set it too")):
            settings(**given)
    with pytest.raises(ValidationError, match=f"{dialect.prefix}_API_KEY would travel unencrypted to tei") as raised:
        dialect.hosted("http://tei", api_key=KEY)
    assert KEY not in json.dumps(raised.value.errors(include_input=False), default=str)
    plain: dict[str, Any] = {"trusted_plain": ["tei"]}
    for url, more in (("http://tei", plain), ("https://tei", {}), ("http://localhost:1", {})):
        assert dialect.hosted(url, api_key=KEY, **more).api_key is not None
