"""Places the servers of one cluster on this machine: a directory and a transport port for each."""

import socket
from contextlib import ExitStack
from pathlib import Path

from deploy.elasticsearch.configuration import HOST, Membership


def node_directories(data: Path, nodes: int) -> list[Path]:
    """Returns the data directory of each node. Clusters of other sizes have others: a cluster remembers its nodes."""
    if nodes == 1:
        return [data]
    return [data / f"{nodes}-nodes" / f"node-{number}" for number in range(1, nodes + 1)]


def all_directories(data: Path) -> list[Path]:
    """Returns the data directories of every size of cluster that was ever started on `data`."""
    return [data, *sorted(data.glob("*-nodes/node-*"))]


def memberships(nodes: int) -> list[Membership | None]:
    """Returns the place of each node among the others, on transport ports that are free now; None where it is alone."""
    if nodes == 1:
        return [None]
    with ExitStack() as opened:
        trials = [opened.enter_context(socket.socket()) for _ in range(nodes)]
        for trial in trials:
            trial.bind((HOST, 0))
        ports = tuple(int(trial.getsockname()[1]) for trial in trials)
    return [Membership(number, ports) for number in range(1, nodes + 1)]
