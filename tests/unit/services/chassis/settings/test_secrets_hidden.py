"""Settings, their errors, and the errors of clients hide secrets in every text that Python makes of them."""

import pickle
import re
import traceback
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from deploy.elasticsearch.endpoint import Endpoint
from services.chassis.errors import ProblemError
from services.chassis.server.serve import JsonFormatter
from services.chassis.settings.configuration import (
    BadSettings,
    read_settings,
    secret_fields,
    secret_variables,
    variable,
)
from services.chassis.settings.service_settings import ServiceSettings
from services.dense.settings import DenseSettings
from services.lexical.app import open_engine
from services.lexical.engine import LexicalEngine
from services.lexical.settings import LexicalSettings
from services.vectorservice.compose import open_store
from services.vectorstore.store import VectorStore
from tests.support.keyed_app import connected
from tests.support.planted_secrets import PlantedSecrets, settings_of_processes
from tests.unit.services.chassis.test_chassis import small_app

PROCESSES = settings_of_processes()
SECRET_NAME = re.compile(r"(^|_)(key|token|password|secret|credential)$")


@pytest.fixture(params=PROCESSES, ids=lambda settings: settings.__module__)
def settings(request: pytest.FixtureRequest) -> type[ServiceSettings]:
    chosen: type[ServiceSettings] = request.param
    return chosen


@pytest.fixture
def planted(settings: type[ServiceSettings], monkeypatch: pytest.MonkeyPatch) -> PlantedSecrets:
    """A secret in every secret setting of the process, in the environment."""
    planted = PlantedSecrets.everywhere()
    for name, secret in planted.environment(settings).items():
        monkeypatch.setenv(name, secret)
    return planted


def texts_of(error: BaseException) -> Iterator[str]:
    """Yields what is printed of an error and of its causes."""
    yield "".join(traceback.format_exception(error))
    one: BaseException | None = error
    while one is not None:
        yield from (str(one), repr(one), repr(one.args))
        one = one.__cause__ or one.__context__


def test_settings_hide_their_secrets_in_text_and_in_json(
    settings: type[ServiceSettings], planted: PlantedSecrets
) -> None:
    read = read_settings(settings)
    shown = [str(read), repr(read), f"{read}", repr(read.model_dump()), read.model_dump_json(), repr(vars(read))]
    assert planted.found_in("\n".join(shown).encode()) == set()
    # They are in there.
    assert planted.found_in(pickle.dumps(read)) >= set(secret_variables(settings))


def test_an_error_of_settings_shows_no_secret_of_others(
    settings: type[ServiceSettings], planted: PlantedSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STACK_TOKEN", f"{planted.by_place['STACK_TOKEN']} short")
    monkeypatch.setenv(f"{settings.model_config.get('env_prefix')}PORT", planted.by_place["the key of nobody"])
    with pytest.raises(BadSettings) as refused:
        read_settings(settings)
    assert isinstance(refused.value.__cause__, ValidationError)
    assert planted.found_in("\n".join(texts_of(refused.value)).encode()) == set()


def test_every_setting_that_is_called_a_secret_is_one(settings: type[ServiceSettings]) -> None:
    called = {name for name in settings.model_fields if SECRET_NAME.search(name)}
    named = {name for name in settings.model_fields if SECRET_NAME.search(variable(settings, name).lower())}
    assert called | named <= set(secret_fields(settings))


async def test_the_log_of_an_unforeseen_error_shows_no_header(caplog: pytest.LogCaptureFixture) -> None:
    planted = PlantedSecrets.everywhere()
    secret = planted.by_place["the key of nobody"]
    with caplog.at_level("DEBUG"):
        async with connected(small_app()) as client:
            answer = await client.get("/broken", headers={"authorization": f"Bearer {secret}", "cookie": secret})
    assert answer.status_code == 500
    logged = [JsonFormatter("small").format(record) for record in caplog.records]
    assert any("Traceback" in line for line in logged)
    assert planted.found_in("\n".join(logged).encode(), answer.content, str(answer.headers.raw).encode()) == set()


KEYS = {name: SecretStr(f"planted-{name}-of-a-client") for name in ("api_key", "search_api_key")}


@pytest.mark.filterwarnings("ignore:Api key is used with an insec")
@pytest.mark.parametrize("store", ["elasticsearch", "qdrant"])
async def test_the_errors_of_a_store_that_is_not_there_show_no_key(store: str) -> None:
    nowhere = "http://127.0.0.1:1"
    opened: LexicalEngine | VectorStore
    call: Awaitable[object]
    if store == "elasticsearch":
        given: dict[str, Any] = {f"elasticsearch_{name}": key for name, key in KEYS.items()}
        opened = open_engine(LexicalSettings(engine="elasticsearch", elasticsearch_url=nowhere, **given))
        call = opened.state("notes@1")
    else:
        given = {f"qdrant_{name}": key for name, key in KEYS.items()}
        opened = open_store(DenseSettings(store="qdrant", qdrant_url=nowhere, **given))
        call = opened.spec("notes@1")
    with pytest.raises(ProblemError) as raised:
        await call
    told = "\n".join([*texts_of(raised.value), repr(opened)])
    assert not [name for name, key in KEYS.items() if key.get_secret_value() in told]
    await opened.close()


def test_where_a_test_server_is_hides_its_key() -> None:
    assert "hush" not in repr(Endpoint("https://127.0.0.1:9200", api_key="hush"))
