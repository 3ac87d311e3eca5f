"""`python -m tests.cluster [--without-node]`: rehearses k8s/ on a real cluster and writes docs/soak/kubernetes.md.

The cluster runs in namespaces of its own for processes, mounts and the network: nothing reaches it or leaves it, and it
ends with them. Only its cgroups are removed by hand.
"""

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster import programs
from tests.cluster.cluster import CGROUPS
from tests.cluster.images import build_archive
from tests.soak.outcome import Bar, commit, machine, table, wrapped
from tests.support.processes import ROOT

# All ends with this process, also when it is killed.
NAMESPACES = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
# What differs from the manifests, and what is not shown.
NODES_SAY = (
    "On the nodes runs the overlay `dev` with late interaction, two gateways and two re-rankers as the component "
    "`replicated` has them, and the policy of `prod` for metrics. CPU requests are lowered, because two cores hold "
    "every pod; lexical and dense prefer different nodes. Volumes are folders that both nodes see. A pod in another "
    "namespace searches the bundled collection through the gateway's Service, over connections that it keeps, and "
    "tries nothing twice."
)
NOT_HERE = (
    "Not shown: `prod` on a node, because the images of Elasticsearch and Qdrant cannot be pulled here; certificates; "
    "GPUs; a node that is lost without a drain; autoscaling by CPU, which takes metrics-server. The adapter of the "
    "custom metrics is the test's own, `tests/cluster/adapter.py`."
)
PAGE = ROOT / "docs" / "soak" / "kubernetes.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--without-node", action="store_true", help="only the dry runs on the API server")
    parser.add_argument("--built", action="store_true", help="run the images that an earlier run has built")
    arguments = parser.parse_args()
    only_api: bool = arguments.without_node
    started = time.monotonic()
    programs.build(node=not only_api)
    if not only_api and not arguments.built:
        build_archive()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    with tempfile.TemporaryDirectory(prefix="retrieval-k8s-") as folder:
        home = Path(folder)
        before = traces(home.name)
        inside = [sys.executable, "-m", "tests.cluster.inside", str(home), *(["--without-node"] * only_api)]
        running = subprocess.Popen([*NAMESPACES, *inside])
        try:
            status = running.wait()
        finally:
            running.kill()
            running.wait()
            remove_cgroups(home.name)
        if status:
            return status
        result = json.loads((home / "result.json").read_text())
        left = sorted(traces(home.name) ^ before)
    bars = [Bar(**bar) for bar in result["bars"]]
    bars.append(
        Bar("nothing is left: processes, mounts, cgroups, chains, kernel settings", f"{len(left)} left", not left)
    )
    text = page(bars, result["parts"], time.monotonic() - started, only_api)
    print(text, *left, sep="\n")
    PAGE.write_text(text, encoding="utf-8")
    return 0 if all(bar.held for bar in bars) else 1


def traces(name: str) -> set[str]:
    """What a cluster of this name could leave behind, and the kernel settings that its programs would change."""
    processes = {
        f"process {folder.name}"
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and int(folder.name) != os.getpid() and name in _read(folder / "cmdline")
    }
    mounts = {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line}
    chains = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout.splitlines()
    settings = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/ipv4/ip_forward")
    return {
        *processes,
        *mounts,
        *(str(cgroup) for cgroup in CGROUPS.glob(f"*/{name}")),
        *(chain for chain in chains if "KUBE" in chain),
        *(f"{setting} is {_read(Path('/proc/sys') / setting)}" for setting in settings),
    }


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a process that ended since
        return ""


def remove_cgroups(name: str) -> None:
    """Removes the cgroups of a cluster whose processes have ended, the innermost first."""
    for top in CGROUPS.glob(f"*/{name}"):
        for folder, _, _ in os.walk(top, topdown=False):
            os.rmdir(folder)


def page(bars: list[Bar], parts: list[list[str]], seconds: float, only_api: bool) -> str:
    """Renders the page: bars, then a table or a text for each part."""
    given = " ".join(sys.argv[1:])
    command = f".venv/bin/python -m tests.cluster {given}" if given else "make test-k8s"
    held = [(bar.promise, bar.measured, "yes" if bar.held else "**no**") for bar in bars]
    return (
        "\n\n".join(
            [
                "# Kubernetes, rehearsed",
                wrapped(
                    f"Kubernetes {programs.RELEASE}: its programs, built from their Go modules, with etcd, containerd "
                    "and runc from Debian. The nodes have a network each on one machine; nothing leaves these networks."
                ),
                *([] if only_api else [wrapped(NODES_SAY), wrapped(NOT_HERE)]),
                f"```bash\n{command}\n```",
                wrapped(
                    f"Commit {commit()}, {machine()}, {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {seconds:.0f} s."
                ),
                table(("bar", "measured", "held"), held),
                *("\n\n".join(part) for part in parts),
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
