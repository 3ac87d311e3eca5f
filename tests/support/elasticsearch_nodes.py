"""Runs three nodes of one Elasticsearch cluster on this machine."""

import shutil
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # without types

from deploy.elasticsearch.account import make_directory, substitute_directory
from deploy.elasticsearch.configuration import Setting
from deploy.elasticsearch.data_lock import is_locked
from deploy.elasticsearch.install import install
from deploy.elasticsearch.server import ElasticsearchServer, say, start_server
from deploy.local.ports import free_ports


class ThreeNodes:
    """Three servers of one cluster below a directory, and the ports by which they find each other."""

    def __init__(self, data: Path) -> None:
        self.data, self.transport_ports = data, free_ports(3)
        self.servers: dict[int, ElasticsearchServer] = {}

    def directory(self, number: int) -> Path:
        return self.data / f"node-{number}"

    def start(self, number: int) -> None:
        installation = install(say)
        directory = make_directory(self.directory(number), installation.account)
        names = [f"node-{other}" for other in (1, 2, 3)]
        cluster: dict[str, Setting] = {
            "discovery.type": "multi-node",
            "node.name": names[number - 1],
            "transport.port": self.transport_ports[number - 1],
            "discovery.seed_hosts": [f"127.0.0.1:{other}" for other in self.transport_ports],
            "cluster.initial_master_nodes": names,  # read at the first start alone
        }
        with (directory / "server.log").open("ab") as output:
            self.servers[number] = start_server(
                installation, directory, output=output, detached=True, cluster=cluster, nodes=3
            )

    def start_all(self) -> str:
        """Returns the URL of the first server, once all are healthy."""
        for number in (1, 2, 3):
            self.start(number)
        first, *_ = [self.servers[number].wait_until_healthy().url for number in (1, 2, 3)]
        return first

    def close(self) -> None:
        """Ends all and removes what a directory of their user's holds."""
        for server in self.servers.values():
            server.stop()
        for number in (1, 2, 3):
            shutil.rmtree(substitute_directory(self.directory(number)), ignore_errors=True)

    def kill(self, number: int) -> None:
        """Kills a node with SIGKILL."""
        for process in psutil.Process(self.servers[number].pid).children():  # Java itself, below its launcher
            process.kill()

    def rejoin(self, number: int) -> None:
        """Starts a node again on its directory, once its process has ended."""
        while is_locked(self.directory(number)):
            time.sleep(0.1)
        self.start(number)
        self.servers[number].wait_until_healthy()
