"""`python -m tests.containers`: builds every image, runs them as Compose does, and writes docs/soak/images.md.

The engine is one of the tests' own unless one runs; every service has its embedded engine, without TLS.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from deploy.deployables import DEPLOYABLES
from tests.containers.built_images import BASE, build_base, build_image, size
from tests.containers.engine import Engine, NoEngineError, opened_engine
from tests.soak.outcome import Bar, Outcome, page
from tests.support.images import IMPORT_ALL, foreign_packages, imported_modules
from tests.support.processes import ROOT

# Megabytes above the base image, without models.
MOST_MB = {"gateway": 50, "lexical": 110, "evaluator": 600}
MOST_MB_WITH_MODELS = 250
READY_WITHIN_S = 120.0
REST_S = 10.0
COLLECTION = "evaluator/collections/bicycle-workshop"
TOKEN = "only-between-the-containers-of-a-test"
QUERY = "can I get my money back if the bike I bought is faulty"
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]
FAMILIES = {"dense-bge": "dense", "dense-e5": "dense"}
# Prints the status of each path of this container, and how many metrics it shows.
ASKING = """
import os, urllib.request
for path in ("livez", "readyz", "metrics"):
    answer = urllib.request.urlopen(f"http://127.0.0.1:{os.environ['PROBE_PORT']}/{path}", timeout=10)
    print(path, answer.status, answer.read().count(b"# TYPE"))
"""
# Prints the user, the capabilities, and whether the root can be written to.
CONFINED = "id -u; grep CapEff /proc/self/status | cut -f2; touch /app/x 2>/dev/null && echo writable || echo read-only"
INSIDE = "find /venv /app /models -name pip -o -name tests -o -name .cache -o -name '*.nbc'; du -sb /models | cut -f1"


@dataclass
class Measured:
    """One image: its build, its bytes, and what its container took."""

    name: str
    tag: str
    build_s: float
    mb: float
    models_mb: float
    unwanted: list[str]
    start_s: float = 0.0
    memory: str = ""

    @property
    def most_mb(self) -> int:
        return MOST_MB.get(self.name, MOST_MB_WITH_MODELS)


@dataclass
class Run:
    """The containers of one run on an engine, and what it found."""

    engine: Engine
    images: list[Measured] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    def bar(self, promise: str, measured: object, held: bool) -> None:
        self.bars.append(Bar(promise, str(measured), held))
        print(f"{'held' if held else 'MISSED'}: {promise}: {measured}", flush=True)

    def inside(self, name: str, *words: str) -> str:
        return self.engine.docker("exec", f"test-{name}", *words)


def build(run: Run) -> None:
    build_base(run.engine)
    base = size(run.engine, BASE)
    for name in DEPLOYABLES:
        started = time.monotonic()
        tag = build_image(run.engine, name)
        build_s = time.monotonic() - started
        *unwanted, models = run.engine.docker("run", "--rm", tag, "sh", "-c", INSIDE).split()
        models_mb = int(models) / 1e6 if DEPLOYABLES[name].models else 0.0
        image = Measured(name, tag, build_s, (size(run.engine, tag) - base) / 1e6 - models_mb, models_mb, unwanted)
        run.images.append(image)
        run.engine.docker("run", "--rm", tag, "python", "-c", IMPORT_ALL, *imported_modules(DEPLOYABLES[name]))
        installed = run.engine.docker("run", "--rm", tag, "sh", "-c", "ls /venv/lib/python3.11/site-packages")
        packages = {line.split("-")[0].lower() for line in installed.split() if line.endswith(".dist-info")}
        image.unwanted += sorted(packages & foreign_packages(name))
    over = [f"{image.name} {image.mb:.0f} of {image.most_mb}" for image in run.images if image.mb > image.most_mb]
    run.bar(
        "above the base: gateway 50 MB, lexical 110, model services 250 beside models, evaluator 600",
        ", ".join(over) or "all within",
        not over,
    )
    unwanted = {image.name: image.unwanted for image in run.images if image.unwanted}
    run.bar(
        "no pip, cache, tests or foreign package inside; every module finds what it imports", unwanted, not unwanted
    )


@contextmanager
def containers(run: Run) -> Iterator[None]:
    """Starts a container of each image, one after another, and removes all of them with their data at the end."""
    docker = run.engine.docker
    names = [f"test-{name}" for name in DEPLOYABLES]
    docker("network", "create", "test-images")
    try:
        # The gateway looks for its backends, the evaluator for the gateway.
        for image in sorted(run.images, key=lambda image: ("gateway", "evaluator").count(image.name)):
            start(run, image)
        yield
    finally:
        docker("rm", "--force", "--volumes", *names)
        docker("network", "rm", "test-images")


def start(run: Run, image: Measured) -> None:
    """Starts a container with the confinement and the limits of its service in deploy/compose.yaml."""
    as_composed = COMPOSE[image.name]
    backends = {
        name.replace("-", "_"): {
            "family": FAMILIES.get(name, name.replace("-", "_")),
            "url": f"http://{name}:{deployable.port}",
        }
        for name, deployable in DEPLOYABLES.items()
        if name not in ("gateway", "evaluator")
    }
    environment = {
        "STACK_TOKEN": TOKEN,
        "GATEWAY_BACKENDS": json.dumps(backends),
        "GATEWAY_TRUSTED_PLAIN": json.dumps([*DEPLOYABLES]),
        "EVALUATOR_TRUSTED_PLAIN": '["gateway"]',
        "GATEWAY_URL": "http://gateway:8000",
    }
    limits = {
        "--memory": as_composed["mem_limit"],
        "--cpus": as_composed["cpus"],
        "--pids-limit": as_composed["pids_limit"],
        "--cap-drop": "ALL",
        "--security-opt": as_composed["security_opt"][0],
        "--tmpfs": as_composed["tmpfs"][0],
        "--network": "test-images",
        "--network-alias": image.name,
        "--name": f"test-{image.name}",
        "--volume": "/data",
    }
    options = [f"{name}={value}" for name, value in limits.items()]
    options += [f"--env={name}={value}" for name, value in environment.items()]
    started = time.monotonic()
    run.engine.docker("run", "--detach", "--init", "--read-only", "--publish=127.0.0.1::8000", *options, image.tag)
    while True:
        try:
            run.inside(image.name, "python", "/app/deploy/probe.py", "/readyz")
            break
        except AssertionError:
            if time.monotonic() > started + READY_WITHIN_S:
                print(run.engine.docker("logs", f"test-{image.name}"))
                raise
            time.sleep(0.2)
    image.start_s = time.monotonic() - started
    print(f"container: {image.name} is ready after {image.start_s:.1f} s", flush=True)


def rest(run: Run) -> None:
    time.sleep(REST_S)
    stats = run.engine.docker("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}").splitlines()
    used = {line.split()[0].removeprefix("test-"): line.split()[1] for line in stats}
    for image in run.images:
        image.memory = used[image.name]


def ask(run: Run) -> None:
    confined = {name: run.inside(name, "sh", "-c", CONFINED).split() for name in DEPLOYABLES}
    loose = {name: found for name, found in confined.items() if found != ["10001", "0000000000000000", "read-only"]}
    run.bar("uid 10001, no capability, a root that is read only", loose or "all nine", not loose)
    answers = {name: run.inside(name, "python", "-c", ASKING).split() for name in DEPLOYABLES}
    poor = {name: words for name, words in answers.items() if words[1::3] != ["200"] * 3 or int(words[-1]) < 10}
    run.bar("/livez, /readyz and /metrics answer", poor or "all nine", not poor)


def search(run: Run) -> None:
    # deepct searches weights that a user's command makes; they do not ship.
    pipelines = sorted({path.stem for path in (ROOT / "gateway" / "pipelines").glob("*.yaml")} - {"deepct"})
    evaluator = ("python", "-m", "evaluator")
    loading = ("--dataset", COLLECTION, "--expansions", f"{COLLECTION}/doc2query.jsonl", "--runs", "/data/runs")
    # Five queries of every pipeline, with tables, charts and pages.
    run.inside("evaluator", *evaluator, "demo", *loading, "--pipelines", ",".join(pipelines), "--queries", "5")
    port = run.engine.docker("port", "test-gateway", "8000").rsplit(":", 1)[1].strip()
    poor = []
    for name in pipelines:
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/collections/demo/search",
            headers={"authorization": f"Bearer {TOKEN}", "x-deadline-ms": "20000"},
            json={"query": QUERY, "pipeline": name, "top": 10},
            timeout=30.0,
            trust_env=False,
        )
        found = answer.json()
        if answer.status_code != 200 or not found["hits"] or found["degraded"]:
            poor.append(f"{name}: {answer.text[:200]}")
    run.bar(f"every shipped pipeline but deepct ({len(pipelines)}) answers, none degraded", poor or "all", not poor)


def stop(run: Run) -> None:
    names = [f"test-{name}" for name in DEPLOYABLES]
    run.engine.docker("stop", "--time", "40", *names)
    impolite = []
    for name in names:
        status = run.engine.docker("inspect", "--format", "{{.State.ExitCode}} {{.State.OOMKilled}}", name).strip()
        closed = "all that was opened is closed" in run.engine.docker("logs", name)
        if status not in ("0 false", "143 false") or not closed:
            impolite.append(f"{name} {status}")
    run.bar("SIGTERM ends each with all closed", impolite or "all nine", not impolite)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "soak", help="where the page goes")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        with opened_engine() as engine:
            run = Run(engine)
            build(run)
            with containers(run):
                rest(run)
                ask(run)
                search(run)
                stop(run)
    except NoEngineError as reason:
        print(f"no engine can be started here: {reason}")
        return 1
    # opened_engine has looked.
    run.bar("nothing is left: processes, mounts, cgroups, addresses, chains", "nothing", True)
    says = (
        "Every image of deploy/Dockerfile, built on a base of Debian's packages and run with the limits of "
        "deploy/compose.yaml, with embedded engines."
    )
    columns = ("image", "MB above the base", "bar", "models, MB", "built in, s", "ready after, s", "memory at rest")
    rows = tuple(
        (image.name, f"{image.mb:.1f}", str(image.most_mb), f"{image.models_mb:.0f}", f"{image.build_s:.0f}",
         f"{image.start_s:.1f}", image.memory)
        for image in run.images
    )  # fmt: skip
    outcome = Outcome("images", says, None, columns, rows, tuple(run.bars), ())
    text = page(outcome, time.monotonic() - started, "make test-images")
    print(text)
    arguments.to.mkdir(parents=True, exist_ok=True)
    (arguments.to / "images.md").write_text(text, encoding="utf-8")
    return 0 if outcome.held else 1


if __name__ == "__main__":
    sys.exit(main())
