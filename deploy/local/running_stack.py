"""Waits until every process of a stack is ready, and asks its gateway, with the authority and the key that it has."""

import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from pydantic import ValidationError

from deploy.local import supervision
from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.replaced_environment import replaced_environment
from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.errors import EvaluationError
from services.chassis.settings.trust import certificate_fault, scheme_fault
from services.contracts.pipelines import Pipeline, PipelineChanges, PipelineList
from services.contracts.problem import Problem

# Elasticsearch takes 12 s on a quiet machine; a busy one with two cores took ten times as long.
READY_WITHIN_S = 240.0
NOT_LISTENING = "not listening yet"
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


def not_ready(url: str, context: ssl.SSLContext) -> str | None:
    """Returns why the process at `url` is not ready; None when it is.

    Raises StackProblem for what waiting does not change: its certificate, TLS where the URL has none, and vice versa.
    """
    try:
        with opener(context).open(f"{url}/readyz", timeout=5):
            return None
    except urllib.error.HTTPError as error:
        try:
            checks = json.load(error)["checks"]
            # Where callers need a key, /readyz has no details.
            reasons = [check["detail"] or f"{check['name']} (its log says why)" for check in checks if not check["ok"]]
            return "; ".join(reasons) or "draining"
        except (ValueError, LookupError, TypeError):
            return f"HTTP {error.code}"
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)  # of a URLError
        if isinstance(reason, BaseException) and (fault := certificate_fault(reason)) is not None:
            raise StackProblem(
                f"The certificate at {url} is refused ({fault}): it has to be for that host, and STACK_CA_FILE has to "
                "name the authority that issued it."
            ) from error
        if (fault := scheme_fault(url, error)) is not None:
            raise StackProblem(f"{url} cannot be asked: {fault}.") from error
        return NOT_LISTENING


def wait_until_ready(choices: Choices, say: Callable[[str], None]) -> None:
    """Waits until every process is ready. Raises StackProblem with the end of its log when one ends."""
    try:
        context = access_to(choices).context()
    except EvaluationError as error:
        raise StackProblem(str(error)) from error
    start = last_said = time.monotonic()
    waiting = [process for process in choices.ports if process != "elasticsearch"]
    while True:
        reasons = {process: not_ready(choices.url(process), context) for process in waiting}
        waiting = [process for process, reason in reasons.items() if reason is not None]
        if not waiting:
            return
        dead = supervision.failed_start(choices.directory)
        if dead is not None:
            raise StackProblem(f"{dead} does not start. Its log ends with:\n{_tail(choices, dead)}")
        if supervision.pid(choices.directory) is None:
            raise StackProblem(f"The supervisor has ended: {choices.directory}/logs/supervisord.log says why.")
        now = time.monotonic()
        if now - start > READY_WITHIN_S:
            waits = "; ".join(f"{process}: {reasons[process]}" for process in waiting)
            raise StackProblem(f"Not ready after {READY_WITHIN_S:.0f} s. {waits}. Logs: {choices.directory}/logs")
        if now - last_said > 5:
            last_said = now
            say(f"  {now - start:3.0f} s, waiting for " + ", ".join(f"{name} ({reasons[name]})" for name in waiting))
        time.sleep(0.2)


def _tail(choices: Choices, process: str) -> str:
    """Returns the last log lines of a process; of JSON lines the message."""
    log = supervision.log_file(choices.directory, process)
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else ["(nothing)"]
    return "\n".join(f"  {_message(line)}" for line in dict.fromkeys(lines))


def _message(line: str) -> str:
    try:
        return str(json.loads(line)["message"])
    except (ValueError, LookupError, TypeError):
        return line


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
