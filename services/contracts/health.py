"""What the probes answer."""

from typing import Literal

from services.contracts.base import Wire


class Check(Wire):
    """One thing that readiness depends on."""

    name: str
    ok: bool
    detail: str = ""


class Health(Wire):
    """`ready` only when every check is ok and the process is not draining."""

    service: str
    status: Literal["alive", "ready", "not_ready", "draining"]
    checks: tuple[Check, ...] = ()
