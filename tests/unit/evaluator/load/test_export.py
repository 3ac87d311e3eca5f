"""Targets for other tools hold the planned requests, in their order, with deadline and rate."""

import base64
import json

import pytest

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.export import ExportedTraffic, export_command, exported_files, exported_traffic
from evaluator.load.sending.traffic import LoadTarget

# Quotes of all kinds, a line separator that JavaScript minds, and text beyond ASCII.
TEXTS = {"q1": 'oil the "chain"', "q2": "it's \u2028 grün ${x} {y}", "q3": "plain"}
PLAN = LoadPlan(rates=(12.5,), seconds=8, deadline_ms=1_500, most_in_flight=300)


def target(caches: bool = False) -> LoadTarget:
    bodies = {("bm25", name): json.dumps({"query": text, "top": 7}).encode() for name, text in TEXTS.items()}
    return LoadTarget(
        url="http://127.0.0.1:8000/v1/collections/demo/search", top=7, deadline_ms=1_500, queries=tuple(TEXTS),
        bodies=bodies, excluded=frozenset(), reranks={"bm25": {}}, caches=caches,
    )  # fmt: skip


@pytest.fixture
def traffic() -> ExportedTraffic:
    return exported_traffic(target(), "bm25", 12.5, PLAN, seed=7)


def sent(traffic: ExportedTraffic) -> list[bytes]:
    return [traffic.task.bodies[pick] for pick in traffic.task.picks]


def test_the_queries_are_those_of_the_seed_as_many_as_the_rate_needs(traffic: ExportedTraffic) -> None:
    assert len(sent(traffic)) == 100
    assert {json.loads(body)["query"] for body in sent(traffic)} == set(TEXTS.values())
    assert sent(exported_traffic(target(), "bm25", 12.5, PLAN, seed=7)) == sent(traffic)
    assert sent(exported_traffic(target(), "bm25", 12.5, PLAN, seed=8)) != sent(traffic)


def test_every_request_has_a_target(traffic: ExportedTraffic) -> None:
    lines = exported_files(traffic)["bm25-12.5.targets.jsonl"].splitlines()
    targets = [json.loads(line) for line in lines]
    assert [base64.b64decode(line["body"]) for line in targets] == sent(traffic)
    assert {(line["method"], line["url"]) for line in targets} == {("POST", target().url)}
    assert targets[0]["header"]["x-deadline-ms"] == ["1500"]
    assert targets[0]["header"]["cache-control"] == ["no-store"]


def test_a_broken_rate_is_whole_requests_in_whole_seconds(traffic: ExportedTraffic) -> None:
    script = exported_files(traffic)["bm25-12.5.js"]
    options = json.loads(script.partition("export const options = ")[2].partition(";\n")[0])
    scenario = options["scenarios"]["load"]
    assert (scenario["rate"], scenario["timeUnit"], scenario["duration"]) == (25, "2s", "8000ms")
    assert scenario["maxVUs"] == 300


def test_deadline_timeout_and_cache_control_are_carried() -> None:
    for caches in (False, True):
        files = exported_files(exported_traffic(target(caches), "bm25", 12.5, PLAN, seed=7))
        targets = files["bm25-12.5.targets.jsonl"]
        assert "x-deadline-ms" in targets
        assert ("no-store" in targets) is not caches
        # The deadline, and two seconds in which a late answer is still read.
        assert 'timeout: "3500ms"' in files["bm25-12.5.js"]


def test_the_script_reads_the_targets_and_the_command_runs_the_script(traffic: ExportedTraffic) -> None:
    script, targets = exported_files(traffic)
    assert f'open("./{targets}")' in exported_files(traffic)[script]
    assert export_command(traffic) == f"k6 run {script}"
