"""`python -m tests.cluster.inside FOLDER CGROUP [--without-node]`: what runs in the namespaces of the test."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.cluster.cluster import Cluster, own_machine
from tests.cluster.dry_run import judged
from tests.soak.outcome import table


def main(home: Path, cgroup: str) -> None:
    own_machine(home, cgroup)
    cluster = Cluster(home, cgroup)
    print(f"API server ready after {cluster.start_api():.1f} s", flush=True)
    bars, rows = judged(cluster, home)
    parts = [["## Strict dry runs", table(("what is applied", "objects"), rows)]]
    (home / "result.json").write_text(json.dumps({"bars": [asdict(bar) for bar in bars], "parts": parts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
