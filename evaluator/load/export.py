"""Writes the traffic of an experiment's `load` as targets for other load generators, with a script for k6.

Sends none of it, but one query a pipeline, to see that the gateway can run it.
"""

from collections.abc import Sequence
from pathlib import Path

from evaluator.client.client import GatewayClient
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import LoadPlan, TrafficStep
from evaluator.load.export_scripts import ExportedTraffic, export_command, exported_files
from evaluator.load.sending.drives import generator_task
from evaluator.load.sending.traffic import LoadTarget, load_target, open_slices
from evaluator.steps.arms import resolve_arms
from evaluator.steps.prepared_run import live_collection, load_dataset
from evaluator.steps.rank import choose_queries, expect_runnable
from evaluator.thread_work import in_thread


async def planned_export(client: GatewayClient, experiment: Experiment) -> list[ExportedTraffic]:
    """Returns the traffic of every pipeline at every rate.

    Raises EvaluationError for a plan without `rates`, or a pipeline that the gateway refuses.
    """
    plan = experiment.load
    if plan is None or not plan.rates:
        raise EvaluationError("--export needs rates, for example --rate 20: the tools send at a constant rate")
    dataset = await in_thread(load_dataset, experiment)
    arms = await resolve_arms(client, experiment, await live_collection(client, experiment))
    await expect_runnable(client, experiment, arms)
    queries = choose_queries(list(dataset.judgments), list(dataset.queries), experiment).measured
    target = load_target(client.url, experiment, arms, dataset, queries, plan)
    seed = plan.seed_or(experiment.seed)
    return [exported_traffic(target, arm.name, rate, plan, seed) for arm in arms for rate in plan.rates]


def unexported_fields(plan: LoadPlan) -> list[str]:
    """Returns the fields of a plan that hold more than its rates, and that scripts leave out."""
    named = ("steps", "trace", "in_flight", "capacity", "best_under_ms", "repeat")
    return [name for name in named if getattr(plan, name) != LoadPlan.model_fields[name].default]


def exported_traffic(target: LoadTarget, pipeline: str, rate: float, plan: LoadPlan, seed: int) -> ExportedTraffic:
    """Returns a pipeline's traffic at one rate: the queries that `load` draws from this seed, in their order."""
    steps = [TrafficStep(rate=rate, seconds=plan.seconds)]
    constant = plan.model_copy(update={"arrivals": "constant", "warmup_seconds": 0.0})
    (whole,) = open_slices(target.queries, steps, 1, constant, seed, f"{rate:g}", repeat=0)
    task = generator_task(target, whole.through(pipeline), plan.most_in_flight)
    return ExportedTraffic(f"{pipeline}-{rate:g}", task, rate, plan.seconds)


def write_export(directory: Path, exported: Sequence[ExportedTraffic]) -> list[str]:
    """Writes scripts and targets; returns the commands that run them, in the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for traffic in exported:
        for name, text in exported_files(traffic).items():
            (directory / name).write_text(text, encoding="utf-8")
    return [export_command(traffic) for traffic in exported]
