"""Asks a running stack's gateway, and opens its processes with the authority and the key that they have."""

import os
import ssl
import urllib.error
import urllib.request

from pydantic import ValidationError

from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.errors import EvaluationError
from services.contracts.pipelines import Pipeline, PipelineChanges, PipelineList
from services.contracts.problem import Problem

ANSWER_WITHIN_S = 30


def access_to(choices: Choices) -> GatewayAccess:
    """Returns the key and the authority of a stack's gateway. Raises StackProblem."""
    try:
        with replaced_environment({**os.environ, **choices.environment()}):
            return read_access()
    except EvaluationError as error:
        raise StackProblem(str(error)) from error


def opener(context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """Returns what opens URLs without a proxy: the addresses are local."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))


def reread_pipelines(choices: Choices) -> str:
    """Reloads the gateway's pipeline files; returns the changes in a sentence. Raises StackProblem for a fault."""
    changes = PipelineChanges.model_validate_json(_gateway_answer(choices, "POST", "/v1/pipelines/reload"))
    parts = [
        f"{what} {', '.join(names)}"
        for what, names in (("new", changes.added), ("changed", changes.changed), ("gone", changes.removed))
        if names
    ]
    return f"Pipelines read again: {'; '.join(parts) or 'nothing has changed'}."


def pipelines_over_every_backend(choices: Choices) -> list[str]:
    """Returns names of pipelines that the gateway serves: few that use every backend that any of them uses."""
    names: list[str] = []
    covered: set[str] = set()
    for name, pipeline in served_pipelines(choices).items():
        if not covered.issuperset(pipeline.backends):
            names.append(name)
            covered.update(pipeline.backends)
    return names


def served_pipelines(choices: Choices) -> dict[str, Pipeline]:
    """Returns the pipelines that the gateway serves, by name. Raises StackProblem."""
    views = PipelineList.model_validate_json(_gateway_answer(choices, "GET", "/v1/pipelines")).pipelines
    return {view.name: view.pipeline for view in views}


def _gateway_answer(choices: Choices, method: str, path: str) -> bytes:
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
