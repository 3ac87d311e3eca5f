"""Asks a running stack: reloads its pipelines, and finds collections that its engines do not hold."""

import os
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from deploy.local.choices import ROOT, Choices
from deploy.local.problem import StackProblem
from deploy.local.stack_access import access_to, opener
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.runs.run_folder import RunFolder
from gateway.families import default_backends
from services.contracts.collections import CollectionList, CollectionView
from services.contracts.pipelines import Pipeline, PipelineChanges, PipelineList
from services.contracts.problem import Problem

ANSWER_WITHIN_S = 30


def reread_pipelines(choices: Choices) -> str:
    """Reloads the gateway's pipeline files; returns the changes in a sentence. Raises StackProblem for a fault."""
    changes = PipelineChanges.model_validate_json(_asked(choices, "POST", "/v1/pipelines/reload"))
    parts = [
        f"{what} {', '.join(names)}"
        for what, names in (("new", changes.added), ("changed", changes.changed), ("gone", changes.removed))
        if names
    ]
    return f"Pipelines read again: {'; '.join(parts) or 'nothing has changed'}."


def pipelines_over_every_backend(choices: Choices) -> list[str]:
    """Returns names of pipelines that the gateway serves: few that use every backend that any of them uses."""
    found: list[str] = []
    covered: set[str] = set()
    for name, pipeline in served_pipelines(choices).items():
        if not covered.issuperset(pipeline.backends):
            found.append(name)
            covered.update(pipeline.backends)
    return found


def served_pipelines(choices: Choices) -> dict[str, Pipeline]:
    """Returns the pipelines that the gateway serves, by name. Raises StackProblem."""
    views = PipelineList.model_validate_json(_asked(choices, "GET", "/v1/pipelines")).pipelines
    return {view.name: view.pipeline for view in views}


def missing_collections(choices: Choices, environment: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each published collection that an engine it lives on does not hold, with what loads it."""
    engines = {"lexical": choices.lexical, **choices.stores}
    for view in CollectionList.model_validate_json(_asked(choices, "GET", "/v1/collections")).collections:
        missing = [f"{name} ({engines[name]})" if name in engines else name for name in backends_without(view)]
        if missing:
            yield (
                f"Collection `{view.collection}` is not in {' and '.join(missing)}, so searches there are refused or "
                f"flagged. Load it again: {load_command(choices, view.collection, environment)}; or go back to the "
                "engines that it was loaded on."
            )


def backends_without(view: CollectionView) -> list[str]:
    """Returns the backends that a collection lives on and that do not hold its live generation."""
    held = {
        backend.backend: state.declaration.backends
        for backend in view.backends
        for state in backend.generations
        if state.generation == view.live
    }
    # The declaration is that of the generation, the same in each of its backends.
    named = next(iter(held.values()), None)
    if named is None:
        named = tuple(default_backends({backend.backend: backend.family for backend in view.backends}))
    return [
        backend.backend
        for backend in view.backends
        if backend.reachable and backend.backend not in held and view.live is not None and backend.backend in named
    ]


def load_command(choices: Choices, collection: str, environment: Mapping[str, str]) -> str:
    """Returns the evaluator's call that loads a collection, from its newest experiment; else the HTTP calls."""
    runs = Path(environment.get("EVALUATOR_RUNS") or ".runs")
    for file in (path / "experiment.json" for path in reversed(RunFolder.every(ROOT / runs))):
        try:
            experiment = Experiment.from_record(file.read_bytes())
        except (OSError, ValidationError):
            continue
        if not (file.parent / "ingest.json").exists():  # refused before it had loaded anything
            continue
        if experiment.target == collection:
            shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            python = Path(sys.executable)
            call = [os.path.relpath(python, ROOT) if python.is_relative_to(ROOT) else str(python)]
            call += ["-m", "evaluator", "ingest", str(shown), "--gateway", choices.url("gateway")]
            variables = [] if choices.secure is None else choices.secure.caller_variables
            return f"`{' '.join([*variables, shlex.join(call)])}`"
    url = f"{choices.url('gateway')}/v1/collections/{collection}"
    return f"PUT {url}, POST its documents to {url}/documents, POST {url}/publish (all with the same `build`)"


def _asked(choices: Choices, method: str, path: str) -> bytes:
    access, url = access_to(choices), choices.url("gateway")
    try:
        # A POST without JSON is refused, also one without a body (services/chassis/requests/body.py).
        headers = access.headers(url) | {"content-type": "application/json"}
        request = urllib.request.Request(url + path, method=method, headers=headers)
        with opener(access.context()).open(request, timeout=ANSWER_WITHIN_S) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        try:
            raise StackProblem(Problem.model_validate_json(error.read()).detail) from error
        except ValidationError:
            raise StackProblem(f"{method} {path}: the gateway answered {error.code}.") from error
    except EvaluationError as error:
        raise StackProblem(str(error)) from error
    except OSError as error:
        raise StackProblem(f"{method} {path}: the gateway does not answer ({error}); `make logs`.") from error
