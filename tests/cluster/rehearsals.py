"""Does to a running cluster what operators and accidents do, while an application searches, and counts what it saw."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from deploy.deployables import DEPLOYABLES
from tests.cluster import programs
from tests.cluster.cluster import NODES, Cluster, run, wait_for
from tests.cluster.images import NEXT_TAG
from tests.cluster.installed import ENGINES, NAMESPACE, REPLICATED, STRANGERS, wait_until_available
from tests.soak.outcome import Bar
from tests.support.images import ROOT
from tests.support.manifests import NAME, Peer, documents, may_connect, of_kind, pods_of

LOADED, COLLECTION = "evaluator/collections/bicycle-workshop", "demo"
OURS = f"--namespace={NAMESPACE}"
RATE = 20
# Of 100 candidates each: two cores do about five, and the queue is what the autoscaler shall see.
RERANKED_RATE = 10
GATEWAY = f"http://gateway.{NAMESPACE}.svc.cluster.local:8000"
RERANKED = yaml.safe_load((ROOT / "gateway" / "pipelines" / "hybrid-rerank.yaml").read_text())
RERANKED["stages"][-1]["top"] = 10
# One in twenty is re-ranked, and of ten candidates: 100 take two cores 0.2 s, and more than two pods share these.
PIPELINES = (RERANKED, *["hybrid", "hybrid-colbert"] * 9, "hybrid")
METRIC = "http_requests_in_flight"


@dataclass(frozen=True, slots=True)
class Seen:
    """What an application saw of its searches: `failed` and `degraded` count by reason."""

    sent: int
    failed: dict[str, int] = field(default_factory=dict)
    degraded: dict[str, int] = field(default_factory=dict)
    p50_ms: float = 0.0
    p95_ms: float = 0.0


class Application:
    """A pod in another namespace that searches through the gateway's Service."""

    def __init__(self, cluster: Cluster, key: str, queries: list[str]) -> None:
        self._cluster = cluster
        self._key = key
        self._queries = queries

    @contextmanager
    def searching(self, rate: float = RATE, pipelines: Sequence[object] = PIPELINES) -> Iterator[list[Seen]]:
        """Searches at this rate meanwhile; the list has what was seen at the end."""
        bodies = [
            {"query": query, "pipeline": pipelines[number % len(pipelines)]}
            for number, query in enumerate(self._queries * len(pipelines))
        ]
        url = f"{GATEWAY}/v1/collections/{COLLECTION}/search"
        plan = {"url": url, "key": self._key, "rate": rate, "searches": bodies}
        script = (Path(__file__).parent / "traffic.py").read_text()
        command = [programs.path("kubectl"), "exec", "--stdin", "--namespace=shop", "stranger", "--"]
        process = subprocess.Popen(
            [*command, "python", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(plan) + "\n")
        process.stdin.flush()
        seen: list[Seen] = []
        try:
            yield seen
        finally:
            printed, _ = process.communicate(timeout=60)
        lost = Seen(0, {"the stream to the application was lost": 1})
        seen.append(Seen(**json.loads(printed)) if printed else lost)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What was done, the seconds until every pod was ready again, and what the application saw meanwhile."""

    name: str
    seconds: float
    seen: Seen

    @property
    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        seen = self.seen
        counts = [
            "; ".join(f"{number} {reason}" for reason, number in part.items()) or "0"
            for part in (seen.failed, seen.degraded)
        ]
        return (self.name, f"{self.seconds:.0f}", str(seen.sent), *counts, f"{seen.p50_ms:.0f}", f"{seen.p95_ms:.0f}")


COLUMNS = ("what is done", "all ready after, s", "searches", "failed", "degraded", "p50 ms", "p95 ms")


def load(cluster: Cluster) -> str:
    """Loads the bundled collection by the evaluator's pod, and returns its last line."""
    pipelines = "bm25,dense,hybrid,hybrid-colbert,hybrid-rerank"
    asked = ("ingest", "--dataset", LOADED, "--collection", COLLECTION, "--pipelines", pipelines)
    return cluster.kubectl("exec", OURS, "deployment/evaluator", "--", "python", "-m", "evaluator", *asked)


def rehearsed(cluster: Cluster, application: Application, name: str, act: Callable[[], None]) -> Rehearsal:
    """Does something under traffic, waits until all pods are ready again, and a little longer."""
    with application.searching() as seen:
        time.sleep(3)
        started = time.monotonic()
        act()
        wait_until_available(cluster)
        seconds = time.monotonic() - started
        time.sleep(10)  # a pod that goes still answers for 8 s
    return Rehearsal(name, seconds, seen[0])


def roll_outs(cluster: Cluster, application: Application) -> tuple[list[Bar], list[Rehearsal]]:
    """Nothing, restarts, a new image, killed processes and a drained node."""

    def restart(*names: str) -> None:
        cluster.kubectl("rollout", "restart", OURS, *(f"deployment/{name}" for name in names))

    def new_image() -> None:
        for name in REPLICATED:
            image = f"service=retrieval-stack/{name}:{NEXT_TAG}"
            cluster.kubectl("set", "image", OURS, f"deployment/{name}", image)

    def kill(name: str) -> None:
        pod = cluster.get("pods", OURS, f"--selector={NAME}={name}")[0]
        (node,) = (node for node in NODES if node.name == pod["spec"]["nodeName"])
        (container,) = pod["status"]["containerStatuses"]
        task = container["containerID"].removeprefix("containerd://")
        run("ctr", f"--address={node.socket}", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", task)

        def is_back() -> bool:
            (again,) = cluster.get("pods", OURS, pod["metadata"]["name"])
            (status,) = again["status"]["containerStatuses"]
            return bool(status["restartCount"] > container["restartCount"] and status["ready"])

        wait_for(f"{name} after its end", is_back)

    def drain() -> None:
        ours = "--pod-selector=app.kubernetes.io/part-of=retrieval-stack"
        cluster.kubectl("drain", NODES[0].name, "--ignore-daemonsets", "--delete-emptydir-data", ours, "--timeout=240s")

    both = " and ".join(REPLICATED)
    undisturbed = rehearsed(cluster, application, "nothing", partial(time.sleep, 20))
    rolled = [
        rehearsed(cluster, application, f"rolling restart of {both}, two pods each", lambda: restart(*REPLICATED)),
        rehearsed(cluster, application, f"new image of {both}", new_image),
    ]
    moved = []
    killed = []
    for name in (*ENGINES, "late-interaction"):
        title = f"restart of {name}, one pod: the old one is gone before the new one starts"
        moved.append(rehearsed(cluster, application, title, partial(restart, name)))
    for name in (*REPLICATED, *ENGINES, "late-interaction"):
        killed.append(rehearsed(cluster, application, f"`kill -9` of a {name}", partial(kill, name)))
    moved.append(rehearsed(cluster, application, f"drained node, {NODES[0].name} of two", drain))
    cluster.kubectl("uncordon", NODES[0].name)
    slowest = max(result.seconds for result in killed)
    bars = [
        _none_failed("nothing disturbed: no search failed", [undisturbed]),
        _none_failed(f"rolling restart and new image of {both}: no search failed", rolled),
        _none_failed("an engine that restarts, a drained node: searches are degraded, none failed", moved),
        _none_failed("a killed re-ranker or engine: searches are degraded, none failed", killed[1:]),
        Bar("a killed process is ready again within 60 s", f"{slowest:.0f} s at most", slowest < 60),
    ]
    return bars, [undisturbed, *rolled, *moved, *killed]


def _none_failed(promise: str, results: list[Rehearsal]) -> Bar:
    """A bar on the searches that failed."""
    failed = sum(sum(result.seen.failed.values()) for result in results)
    degraded = sum(sum(result.seen.degraded.values()) for result in results)
    sent = sum(result.seen.sent for result in results)
    measured = f"{failed} failed, {degraded} degraded of {sent}"
    return Bar(promise, measured, sent > 0 and not failed)


def policies(cluster: Cluster) -> tuple[list[Bar], list[tuple[str, ...]]]:
    """Connects every pod to every port of ours, and compares with what the policies say."""
    rules = [item for item in documents(cluster.kubectl("kustomize", cluster.home / "rehearsed")) if item]
    written = of_kind(rules, "NetworkPolicy")
    owners = {pods.name: pods for pods in pods_of(rules)}
    running = {
        pod["metadata"]["labels"][NAME]: pod
        for pod in cluster.get("pods", OURS)
        if all(status["ready"] for status in pod["status"]["containerStatuses"])
    }
    targets = {
        (name, port): running[name]["status"]["podIP"]
        for name in running
        if name in DEPLOYABLES
        for port in owners[name].ports.values()
    }
    sources = [(NAMESPACE, pod["metadata"]["name"], Peer({NAME: name})) for name, pod in running.items()]
    sources += [(namespace, "stranger", Peer({NAME: "stranger"}, namespace)) for namespace in STRANGERS[1:]]
    rows: list[tuple[str, ...]] = []
    wrong = []
    for namespace, pod, peer in sources:
        opened = _opened(cluster, namespace, pod, list(targets.items()))
        for (name, port), is_open in zip(targets, opened, strict=True):
            own = peer.namespace is None and peer.labels[NAME] == name
            if not own and is_open != may_connect(written, peer, owners[name], port):
                wrong.append(f"{namespace}/{pod} to {name}:{port}: {'open' if is_open else 'closed'}")
        reached = [f"{name}:{port}" for (name, port), is_open in zip(targets, opened, strict=True) if is_open]
        rows.append((f"{peer.labels[NAME]} in {namespace}", ", ".join(reached) or "nothing"))
    tried = len(sources) * len(targets)
    return [
        Bar("connections open as the policies say", f"{tried - len(wrong)} of {tried} {wrong or ''}", not wrong)
    ], rows


CONNECTS = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def opens(target):
    try:
        socket.create_connection(target, timeout=3).close()
    except OSError:
        return False
    return True
with ThreadPoolExecutor(32) as pool:
    print(json.dumps(list(pool.map(opens, json.loads(sys.argv[1])))))
"""


def _opened(cluster: Cluster, namespace: str, pod: str, targets: list[tuple[tuple[str, int], str]]) -> list[bool]:
    """Whether each target takes a connection of this pod."""
    addresses = json.dumps([(address, port) for (_, port), address in targets])
    command = ("python", "-c", CONNECTS, addresses)
    return list(json.loads(cluster.kubectl("exec", f"--namespace={namespace}", pod, "--", *command)))


def autoscaling(cluster: Cluster, application: Application) -> tuple[list[Bar], list[tuple[str, ...]]]:
    """Reads the metric as an autoscaler does, then re-ranks more than two pods are meant for."""

    def autoscaler() -> tuple[int, float | None]:
        """The pods that it wants, and the average that it has read."""
        (found,) = cluster.get("horizontalpodautoscalers", OURS, "reranker")
        for metric in found["status"].get("currentMetrics") or []:
            if metric["type"] == "Pods" and metric["pods"]["metric"]["name"] == METRIC:
                amount, in_thousandths, _ = metric["pods"]["current"]["averageValue"].partition("m")
                return found["status"]["desiredReplicas"], float(amount) / (1000 if in_thousandths else 1)
        return found["status"]["desiredReplicas"], None

    wait_for("the autoscaler's metric", lambda: autoscaler()[1] is not None)
    before, calm = autoscaler()
    wanted, most = before, 0.0
    with application.searching(RERANKED_RATE, ("hybrid-rerank",)):
        ends_at = time.monotonic() + 60
        while wanted <= before and time.monotonic() < ends_at:
            wanted, read = autoscaler()
            most = max(most, read or 0.0)
            time.sleep(1)
    rows: list[tuple[str, ...]] = [
        ("few re-ranked", str(before), f"{calm}"),
        (f"{RERANKED_RATE} searches per second with 100 re-ranked", str(wanted), f"{most} at most"),
    ]
    promise = f"an autoscaler reads {METRIC} and adds a re-ranker"
    return [Bar(promise, f"{before} pods, then {wanted}", wanted > before)], rows
