"""Clones this checkout and runs its stack: real processes, supervised, on free ports."""

import json
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from deploy.local.choices import ROOT
from deploy.local.ports import DEFAULT_PORTS, free_ports
from tests.support import secured


class Clone:
    """A copy of the tracked and untracked files (not the ignored ones), and the ports that its stack gets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        (root / ".models").symlink_to(ROOT / ".models")
        self.ports = dict(zip(DEFAULT_PORTS, free_ports(len(DEFAULT_PORTS)), strict=True))
        secured.write_stack_files(root / ".data" / "up" / "secure")
        secured.write_stack_files(root / ".data" / "up-second" / "secure")
        for process, port in self.ports.items():
            secured.protect(port, process.upper())

    @property
    def gateway(self) -> str:
        """Returns the URL of its gateway."""
        return f"{secured.scheme()}://127.0.0.1:{self.ports['gateway']}"

    def local(self, command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of deploy.local, as the Makefile does."""
        ports = {f"{process.upper()}_PORT": str(port) for process, port in self.ports.items()}
        environment = {**os.environ, **ports, "RERANKER_SCORER": "overlap"}
        environment = secured.of_a_stack(environment) | settings
        return subprocess.run(
            [sys.executable, "-m", "deploy.local", command],
            cwd=self.root, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def search(self, pipeline: str) -> dict[str, Any]:
        """The answer to a query, three hits deep."""
        body = json.dumps({"query": "wheel bent after a crash", "pipeline": pipeline, "top": 3}).encode()
        return fetched(
            urllib.request.Request(
                f"{self.gateway}/v1/collections/demo/search", body, {"content-type": "application/json"}
            )
        )

    def pid(self, module: str) -> int:
        """The pid of the process of this stack that runs a module."""
        supervisor = int((self.root / ".data/up/supervisord.pid").read_text())
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            if module.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                return int(child)
        raise AssertionError(f"{module} is not running")


def fetched(request: urllib.request.Request, timeout_s: float = 15) -> dict[str, object]:
    """Sends a request to a process of a clone's stack, with what opens it; returns its answer."""
    port = urllib.parse.urlsplit(request.full_url).port
    assert port is not None
    for name, value in secured.headers(port).items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=timeout_s, context=secured.client_context(port)) as answer:
        content: dict[str, object] = json.loads(answer.read() or b"{}")
        return content
