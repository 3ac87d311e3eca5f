"""Owns the lanes of a process: the limiter of each, and the names of its clients."""

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address

from starlette.types import Scope

from services.chassis.admission.cores import available_cores
from services.chassis.admission.limits import AdaptiveLimit, Limiter
from services.chassis.instruments import Instruments
from services.chassis.requests.callers import caller_of
from services.chassis.requests.handling import Lane
from services.chassis.settings.service_settings import CONTROL_SLOTS, ServiceSettings

CONTROL_WAITING = 64
# Work in this process: more at once than cores gains nothing, and takes the interpreter from the event loop.
PER_CORE = 2


def lanes_of(settings: ServiceSettings, instruments: Instruments) -> Mapping[Lane, Limiter]:
    """Returns the limiter of each lane."""
    cores = available_cores()
    most = min(settings.max_in_flight, PER_CORE * cores) if settings.works_in_process else settings.max_in_flight

    def adaptive() -> AdaptiveLimit:
        return AdaptiveLimit(cores, most)

    limits: dict[Lane, tuple[AdaptiveLimit, int]] = {
        "control": (_fixed(CONTROL_SLOTS), CONTROL_WAITING),
        "write": (_fixed(settings.write_slots), settings.max_waiting),
        "bulk": (adaptive(), settings.max_waiting),
        "work": (adaptive(), settings.max_waiting),
    }
    return {lane: Limiter(lane, limit, waiting, instruments) for lane, (limit, waiting) in limits.items()}


def _fixed(slots: int) -> AdaptiveLimit:
    return AdaptiveLimit(slots, slots, slots)


def client_of(scope: Scope) -> str:
    """Returns the name of a caller: the id of its key, else its address, of IPv6 the network."""
    caller = caller_of(scope)
    if caller is not None and caller.key is not None:
        return caller.id
    client = scope.get("client")
    address: str = client[0] if client else ""
    return _network(address) if ":" in address else address


@lru_cache(maxsize=4_096)
def _network(address: str) -> str:
    """Returns the /64 of an IPv6 address, in which a host can use any address; a mapped IPv4 address as it is."""
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address  # a proxy may name its client otherwise
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> 64 << 64))
