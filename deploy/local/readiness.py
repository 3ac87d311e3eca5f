"""Waiting until every process says that it is ready."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from deploy.local import supervision
from deploy.local.choices import Choices
from deploy.local.problem import StackProblem

# Elasticsearch takes 12 s on a quiet machine; a busy one with two cores took ten times as long.
READY_WITHIN_S = 240.0
# A local address is asked directly, whatever http_proxy says.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def not_ready(url: str) -> str | None:
    """Why the process at `url` is not ready; None when it is."""
    try:
        with direct.open(f"{url}/readyz", timeout=5):
            return None
    except urllib.error.HTTPError as error:
        try:
            checks = json.load(error)["checks"]
            return "; ".join(check["detail"] or check["name"] for check in checks if not check["ok"]) or "draining"
        except (ValueError, LookupError, TypeError):
            return f"HTTP {error.code}"
    except OSError:
        return "not listening yet"


def wait_until_ready(choices: Choices, say: Callable[[str], None]) -> None:
    """Returns once every process is ready. Raises StackProblem with the end of its log when one ends."""
    start = last_said = time.monotonic()
    waiting = [process for process in choices.ports if process != "elasticsearch"]
    while True:
        reasons = {process: not_ready(choices.url(process)) for process in waiting}
        if choices.starts_elasticsearch and "cannot be reached" in (reasons.get("lexical") or ""):
            reasons["lexical"] = "its Elasticsearch is still starting"  # ours: no address that somebody has to set
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
            said = "; ".join(f"{process}: {reasons[process]}" for process in waiting)
            raise StackProblem(f"Not ready after {READY_WITHIN_S:.0f} s. {said}. Logs: {choices.directory}/logs")
        if now - last_said > 5:
            last_said = now
            say(f"  {now - start:3.0f} s, waiting for " + ", ".join(f"{name} ({reasons[name]})" for name in waiting))
        time.sleep(0.2)


def _tail(choices: Choices, process: str) -> str:
    """The last messages of a process: of JSON lines the message, of others the line."""
    log = supervision.log_file(choices.directory, process)
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else ["(nothing)"]
    return "\n".join(f"  {_message(line)}" for line in dict.fromkeys(lines))


def _message(line: str) -> str:
    try:
        return str(json.loads(line)["message"])
    except (ValueError, LookupError, TypeError):
        return line
