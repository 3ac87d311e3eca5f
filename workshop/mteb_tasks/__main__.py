"""Evaluates a pipeline of a gateway with mteb, on tasks of mteb or on a collection in BEIR layout."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import mteb

from evaluator.errors import EvaluationError
from evaluator.progress import show
from workshop.mteb_tasks.beir_task import beir_task
from workshop.mteb_tasks.gateway_search import GatewaySearch


def main() -> None:
    """Reads the command line, evaluates, and prints the main score of every task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", help="names of tasks of mteb, or directories in BEIR layout")
    parser.add_argument("--pipeline", default="hybrid")
    parser.add_argument("--gateway", default="http://127.0.0.1:8000")
    parser.add_argument("--split", default="test", help="of directories")
    asked = parser.parse_args()
    try:
        _evaluate(asked.tasks, GatewaySearch(asked.gateway, asked.pipeline), asked.pipeline, asked.split)
    except EvaluationError as error:
        raise SystemExit(f"mteb_tasks: {error}") from error


def _evaluate(names: Sequence[str], search: GatewaySearch, pipeline: str, split: str) -> None:
    tasks = [beir_task(Path(name), split) if Path(name).is_dir() else mteb.get_task(name) for name in names]
    results = mteb.evaluate(search, tasks, cache=None, overwrite_strategy="always")
    for result in results.task_results:
        show(f"{result.task_name} {pipeline} {result.get_score():.5f}")


if __name__ == "__main__":
    main()
