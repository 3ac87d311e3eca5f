"""Owns the wire of the liveness and readiness probes."""

from typing import Literal

from services.contracts.base import Wire


class Check(Wire):
    """The result of one readiness check."""

    name: str
    ok: bool
    detail: str = ""


class Health(Wire):
    """The state of a process: `ready` only when every check is ok and the process is not draining."""

    service: str
    status: Literal["alive", "ready", "not_ready", "draining"]
    checks: tuple[Check, ...] = ()
