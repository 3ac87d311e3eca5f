"""Runs our re-ranker as a contender: `python -m workshop.bench.ours {scorer,session} MODELS_FILE`, settings RERANKER_*.

`scorer` is opened by the service's composition root: tokeniser, batches, workers. `session` is the upper bound of the
engine: rows are tokenised off the clock, and only their batches are timed.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from services.chassis.deadlines import MOST_MS, Deadline
from services.inference.glibc_memory import set_process_options
from services.inference.micro_batches import form_batches, in_request_order
from services.inference.model_tokenizer import ModelTokenizer, Row
from services.inference.open_model import Engine
from services.inference.pair_scorer import scores_from_logits
from services.inference.profiles import TOKENIZER, load_cross_encoder
from services.inference.session import Session
from services.inference.workers import Workers
from services.reranker.app import open_scorer
from services.reranker.settings import RerankerSettings
from workshop.bench.peer import Prepare, serve, whole


def scorer(settings: RerankerSettings, models_file: Path) -> tuple[Prepare, dict[str, str]]:
    """Opens the scorer that the service would serve, without HTTP."""
    opened, runner = open_scorer(settings, models_file), asyncio.Runner()

    def score(query: str, passages: Sequence[str]) -> Sequence[float]:
        return runner.run(opened.score(query, passages, Deadline.after_ms(MOST_MS)))

    return whole(score), {"model": opened.model, "max_tokens": "models.yaml", **_about(settings)}


def session(settings: RerankerSettings, models_file: Path) -> tuple[Prepare, dict[str, str]]:
    """Opens the graph alone, on the service's number of threads and in the batches that it forms."""
    set_process_options()  # as the service does
    profile, folder = load_cross_encoder(models_file, settings.model), settings.models / settings.model
    engine = Engine(settings.device, settings.threads, settings.max_batch_tokens)
    graph = Session(profile, folder, settings.device)
    tokens, workers, runner = (
        ModelTokenizer(folder / TOKENIZER, profile.max_tokens),
        Workers(engine.workers),
        asyncio.Runner(),
    )

    def prepare(query: str, passages: Sequence[str]) -> Callable[[], Sequence[float]]:
        first, *others = tokens.ids([query, *passages])
        rows = [tokens.pair(first, ids) for ids in others]
        return partial(_run, rows)

    def _run(rows: Sequence[Row]) -> Sequence[float]:
        batches = form_batches([len(row.ids) for row in rows], engine.batch_tokens, batchable=profile.batchable)
        calls = [partial(graph.run, [rows[place] for place in batch]) for batch in batches]
        outputs = runner.run(workers.run(calls))
        return in_request_order(batches, [scores_from_logits(output, profile).tolist() for output in outputs])

    return prepare, {"model": profile.name, "max_tokens": "models.yaml", **_about(settings)}


def _about(settings: RerankerSettings) -> dict[str, str]:
    return {
        "threads": f"{Engine(settings.device, settings.threads).workers} workers of one thread",
        "engine": f"onnxruntime {version('onnxruntime')}",
        "tokenizers": version("tokenizers"),
    }


if __name__ == "__main__":
    what, models_file = sys.argv[1:]
    serve(partial({"scorer": scorer, "session": session}[what], RerankerSettings(), Path(models_file)))
