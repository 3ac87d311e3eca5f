"""Writes the traffic of an experiment's `load` as targets for other load generators, with a script for k6.

Sends none of it, but one query a pipeline, to see that the gateway can run it.

A target is a line of JSON with `method`, `url`, `header` (name → list of values) and `body` (base64), as vegeta reads
them too. The tools send at a constant rate, in the order of the lines, whether or not earlier requests were answered.
Their times count from when they send, not from a planned time.
"""

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from evaluator.client.client import GatewayClient
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.drives import generator_task
from evaluator.load.sending.load_loop import GeneratorTask
from evaluator.load.sending.traffic import LoadTarget, load_target, open_slices
from evaluator.progress import in_thread
from evaluator.steps.arms import resolve_arms
from evaluator.steps.prepared_run import live_collection, load_dataset
from evaluator.steps.rank import choose_queries, expect_runnable

# The environment of the tool has the key of the gateway: no file holds it.
KEY = "GATEWAY_API_KEY"
PERCENTILES = (50, 90, 95, 99, 99.9)


@dataclass(frozen=True, slots=True)
class ExportedTraffic:
    """One pipeline at one rate: what is sent, in requests per second, for how many seconds. `name` begins the files."""

    name: str
    task: GeneratorTask
    rate: float
    seconds: float

    @property
    def timeout_ms(self) -> int:
        """How long a request may take."""
        return round(self.task.timeout_s * 1000)

    @property
    def fraction(self) -> Fraction:
        """The rate as whole requests in whole seconds."""
        return Fraction(self.rate).limit_denominator(1000)


async def planned_export(client: GatewayClient, experiment: Experiment) -> list[ExportedTraffic]:
    """Returns the traffic of every pipeline at every rate.

    Raises EvaluationError for a plan without `rates`, or a pipeline that the gateway refuses.
    """
    plan = experiment.load
    if plan is None or not plan.rates:
        raise EvaluationError("--export needs rates, for example --rate 20: the tools send at a constant rate")
    dataset = await in_thread(load_dataset, experiment)
    arms = await resolve_arms(
        client, experiment, await live_collection(client, experiment, command_line("ingest", experiment.name))
    )
    await expect_runnable(client, experiment, arms)
    queries = choose_queries(list(dataset.judgments), list(dataset.queries), experiment).measured
    target = load_target(client.url, experiment, arms, dataset, queries, plan)
    return [exported_traffic(target, arm.name, rate, plan, experiment.seed) for arm in arms for rate in plan.rates]


def unexported_fields(plan: LoadPlan) -> list[str]:
    """Returns the fields of a plan that hold more than its rates, and that scripts leave out."""
    named = ("in_flight", "capacity", "best_under_ms", "repeat")
    return [name for name in named if getattr(plan, name) != LoadPlan.model_fields[name].default]


def exported_traffic(target: LoadTarget, pipeline: str, rate: float, plan: LoadPlan, seed: int) -> ExportedTraffic:
    """Returns a pipeline's traffic at one rate: the queries that `load` draws from this seed, in their order."""
    constant = plan.model_copy(update={"arrivals": "constant", "warmup_seconds": 0.0})
    (whole,) = open_slices(target.queries, rate, plan.seconds, 1, constant, seed, repeat=0)
    task = generator_task(target, whole.through(pipeline), plan.most_in_flight)
    return ExportedTraffic(f"{pipeline}-{rate:g}", task, rate, plan.seconds)


def write_export(directory: Path, exported: Sequence[ExportedTraffic]) -> list[str]:
    """Writes scripts and targets; returns the commands that run them, in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for traffic in exported:
        for name, text in exported_files(traffic).items():
            (directory / name).write_text(text, encoding="utf-8")
    return [export_command(traffic) for traffic in exported]


def exported_files(traffic: ExportedTraffic) -> dict[str, str]:
    """Returns the script and its targets: name → text."""
    return {f"{traffic.name}.js": _script(traffic), f"{traffic.name}.targets.jsonl": _targets(traffic)}


def export_command(traffic: ExportedTraffic) -> str:
    """Returns the command that runs the script, in the folder that holds it."""
    return f"k6 run {traffic.name}.js"


def _targets(traffic: ExportedTraffic) -> str:
    task = traffic.task
    header = {name: [value] for name, value in task.headers.items()}
    target = {"method": "POST", "url": task.url, "header": header}
    lines = [json.dumps({**target, "body": base64.b64encode(body).decode()}) for body in task.bodies]
    return "".join(lines[pick] + "\n" for pick in task.picks)


def _script(traffic: ExportedTraffic) -> str:
    # k6 makes a JavaScript engine for each request in flight; it adds some when they run out, and drops what is over.
    most = traffic.task.in_flight
    options = {
        "discardResponseBodies": True,
        "summaryTrendStats": ["count", "avg", "max", *(f"p({share:g})" for share in PERCENTILES)],
        "scenarios": {
            "load": {
                "executor": "constant-arrival-rate",
                "rate": traffic.fraction.numerator,
                "timeUnit": f"{traffic.fraction.denominator}s",
                "duration": f"{round(traffic.seconds * 1000)}ms",
                "preAllocatedVUs": min(most, max(10, math.ceil(traffic.rate / 4))),
                "maxVUs": most,
            }
        },
    }
    return f"""// {export_command(traffic)}
import http from "k6/http";
import encoding from "k6/encoding";
import exec from "k6/execution";
import {{ SharedArray }} from "k6/data";

const lines = new SharedArray("targets", () => open("./{traffic.name}.targets.jsonl").trim().split("\\n"));
const key = __ENV.{KEY} ? {{ authorization: `Bearer ${{__ENV.{KEY}}}` }} : {{}};

export const options = {json.dumps(options, indent=2)};

export default function () {{
  const target = JSON.parse(lines[exec.scenario.iterationInTest % lines.length]);
  const headers = Object.assign({{}}, key);
  for (const name in target.header) headers[name] = target.header[name].join(", ");
  const body = encoding.b64decode(target.body);
  http.request(target.method, target.url, body, {{ headers, timeout: "{traffic.timeout_ms}ms" }});
}}
"""
