"""Waits until every process of a stack is ready. Starts and stops nothing."""

import http.client
import json
import ssl
import time
import urllib.error
from collections.abc import Callable

from deploy.local import supervision
from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.running_stack import access_to, opener
from evaluator.errors import EvaluationError
from services.chassis.settings.trust import certificate_fault, scheme_fault

# Elasticsearch takes 12 s on a quiet machine; a busy one with two cores took ten times as long.
READY_WITHIN_S = 240.0
NOT_LISTENING = "not listening yet"


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
    context = _context(choices)
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


def _context(choices: Choices) -> ssl.SSLContext:
    try:
        return access_to(choices).context()
    except EvaluationError as error:
        raise StackProblem(str(error)) from error


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
