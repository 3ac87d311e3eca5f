"""`python -m tests.cluster.inside FOLDER [--without-node]`: what runs in the namespaces of the test."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.cluster.cluster import NODES, Cluster, own_machine
from tests.cluster.dry_run import judged
from tests.cluster.images import ARCHIVE, SANDBOX
from tests.cluster.installed import install
from tests.cluster.rehearsals import COLUMNS, Application, autoscaling, load, policies, roll_outs
from tests.soak.outcome import Bar, table
from tests.support.processes import ROOT

QUERIES = ROOT / "evaluator" / "collections" / "bicycle-workshop" / "queries.jsonl"


def main(home: Path, only_api: bool) -> None:
    own_machine(home)
    cluster = Cluster(home)
    print(f"API server ready after {cluster.start_api():.1f} s", flush=True)
    bars, rows = judged(cluster, home)
    parts = [["## Strict dry runs", table(("what is applied", "objects"), rows)]]
    if not only_api:
        more_bars, more_parts = rehearse(cluster)
        bars += more_bars
        parts = [*more_parts, *parts]
    (home / "result.json").write_text(json.dumps({"bars": [asdict(bar) for bar in bars], "parts": parts}))


def rehearse(cluster: Cluster) -> tuple[list[Bar], list[list[str]]]:
    """Everything that takes nodes."""
    print(f"nodes ready after {cluster.start_nodes(NODES, ARCHIVE, SANDBOX):.1f} s", flush=True)
    for node in NODES:
        cluster.start_policies(node)
    key = install(cluster)
    print(load(cluster), flush=True)
    application = Application(cluster, key, [json.loads(line)["text"] for line in QUERIES.open()])
    bars, results = roll_outs(cluster, application)
    for result in results:
        print(result.row, flush=True)
    enforced, connections = policies(cluster)
    more, scaled = autoscaling(cluster, application)
    bars += [*enforced, *more, Bar("no program of the cluster ended", f"{cluster.ended or 0}", not cluster.ended)]
    return bars, [
        ["## Under 20 searches per second", table(COLUMNS, [result.row for result in results])],
        ["## Who reaches whom", table(("pod", "reaches"), connections)],
        ["## The autoscaler of the re-ranker", table(("traffic", "pods wanted", "in flight per pod"), scaled)],
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--without-node" in sys.argv)
