"""What holds for every test."""

import functools
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import typer.testing
from fastapi import routing
from fastapi.datastructures import DefaultPlaceholder
from fastapi.exceptions import EndpointContext
from fastapi.routing import APIRoute, request_response
from hypothesis import settings

from evaluator.metrics import calibration
from evaluator.pages import plotted_svg
from retrieval_client import exchange
from services.storage import edge_disk_space
from tests.support import secured
from tests.support.keys import Keys, made_keys
from tests.support.scratch import roomy_memory

# How long an example takes is the machine's: beside other work the usual 200 ms are missed.
settings.register_profile("any machine", deadline=None, max_examples=40)
settings.load_profile("any machine")

# Every call of a command builds the same tree of commands, which takes 50 ms: it is built once.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]  # private

# What each opened directory of Edge reserves is written with zeros: 32 MB take 12 ms, and the tests open hundreds.
edge_disk_space.RESERVE_BYTES = edge_disk_space.MB

# Half of the time that a chart takes is its layout: `laid_out` is for the tests that look at it.
CHARTS_OF_USERS, plotted_svg.LAYOUT = plotted_svg.LAYOUT, None

# Of bootstraps; tests of their rates name how many they draw.
calibration.DRAWS = 9_999

# Before a client sends a call again: they grow from the first one on.
exchange.FIRST_PAUSE_S = 0.02

# A route is prepared once, however many apps of the same kind the tests build. FastAPI analyses its endpoint and
# compiles a validator for each of its parameters and its answer, 2 to 3 ms of CPU; at its first request it parses the
# endpoint's source for the line, 1 ms. A process builds its routes once; the tests build hundreds of apps.
_analyse = APIRoute.__init__
_prepared: dict[tuple[object, ...], dict[str, Any]] = {}


def _context(func: Any) -> EndpointContext:
    code = func.__code__
    return EndpointContext(file=code.co_filename, line=code.co_firstlineno, function=func.__name__)


def _prepare(route: APIRoute, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
    key = _same(path, endpoint, given)
    if key is None or (found := _prepared.get(key)) is None:
        _analyse(route, path, endpoint, **given)
        if key is not None:
            # Without its endpoint, which holds the engine of one app.
            kept = {name: value for name, value in vars(route).items() if name not in ("app", "endpoint")}
            _prepared[key] = kept | {"dependant": replace(route.dependant, call=None)}
        return
    vars(route).update(found)
    route.endpoint = endpoint
    route.dependant = replace(found["dependant"], call=endpoint)
    route.app = request_response(route.get_route_handler())


def _same(path: str, endpoint: Callable[..., Any], given: dict[str, Any]) -> tuple[object, ...] | None:
    """Returns what two routes have in common that FastAPI analyses alike, None where that cannot be compared."""
    if not isinstance(endpoint, FunctionType) or given.get("max_body_size") is not None:
        return None
    chosen = {name: value for name, value in given.items() if not isinstance(value, DefaultPlaceholder)}
    shown = repr((endpoint.__annotations__, endpoint.__defaults__, endpoint.__kwdefaults__, chosen))
    # A function of one app, or a class of one test.
    return None if " at 0x" in shown or "<locals>" in shown else (path, endpoint.__code__, shown)


APIRoute.__init__ = _prepare  # type: ignore[method-assign, assignment]
assert callable(routing._extract_endpoint_context)
routing._extract_endpoint_context = _context


def pytest_configure(config: pytest.Config) -> None:
    """Puts `tmp_path` into memory where there is room, and turns the secure mode on where it is asked for."""
    mode = ExitStack()
    try:
        mode.enter_context(secured.chosen_mode())
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    config.add_cleanup(mode.close)
    if memory := roomy_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps the tests of a file in one worker of `--dist loadgroup`, and all that share one Elasticsearch."""
    for item in items:
        shared = "elasticsearch_url" in getattr(item, "fixturenames", ()) or "elasticsearch" in item.path.stem
        item.add_marker(pytest.mark.xdist_group("elasticsearch" if shared else item.path.stem))


def pytest_collection_finish() -> None:
    """Excludes what the imports have made from garbage collection: a full one then takes milliseconds, not a second.

    Collections wait until tests have left much: after each one they took a twentieth of all CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.fixture(autouse=True)
def no_full_collection_in_the_middle() -> Iterator[None]:
    """Python's garbage collector works between the tests, not in them.

    This one process holds what all tests have loaded: a full collection was measured at up to a second, and tests of
    deadlines allow a third of that. A service freezes what its start has made (DECISIONS 42).
    """
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="module")
def laid_out() -> Iterator[None]:
    """Has charts laid out as users get them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotted_svg, "LAYOUT", CHARTS_OF_USERS)
        yield


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """A key of each scope, one of all scopes, one expired and one revoked."""
    return made_keys(tmp_path)
