"""Writes a simulated run of many queries and pipelines as `rank` leaves it. Asks no gateway."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.datasets.reader import read_dataset
from evaluator.experiments.experiment import Experiment
from evaluator.runs.answers import AnswerRecord
from evaluator.runs.manifest import build_manifest
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.steps.rank import ChosenQueries, RankedArm, write_rank_report, write_run_file
from evaluator.steps.vector_recall import RecallReport
from services.contracts.pipelines import Pipeline

WORDS = [f"{first}{second}" for first in "bcdfglmnprst" for second in ("ado", "iren", "olu", "ume", "ari", "etos")]
DOCUMENT_WORDS = 180  # about 1 kB
CANDIDATES = 150  # of a query: a pipeline orders all and gives the first of them
# Pipelines share most of what they order by: the first 10 of nine of them are about 20 documents.
SHARED, OWN = 1.0, 0.45
JUDGED = 3  # documents of a query, among the best of what the pipelines share
STAGES = {"bm25": 4.0, "dense": 9.0, "fuse": 0.4, "gateway.wait": 0.1, "total": 14.0}  # mean ms


@dataclass(frozen=True, slots=True)
class RunSize:
    """How much a simulated run holds."""

    queries: int = 5_000
    pipelines: int = 9
    depth: int = 100

    @property
    def documents(self) -> int:
        return 2 * self.queries + CANDIDATES


def write_large_run(directory: Path, seed: int, size: RunSize) -> RunFolder:
    """Writes `directory`/collection and one run of it in `directory`/runs, up to what `rank` leaves.

    Every query has JUDGED relevant documents. Answers have latencies and times of stages; nothing is lost.
    """
    dice = np.random.default_rng(seed)
    collection = directory / "collection"
    rankings = _simulated(dice, size)
    _write_collection(collection, dice, size, rankings.judged)
    pipelines = [_pipeline(number) for number in range(size.pipelines)]
    experiment = Experiment(
        name="large",
        dataset=str(collection),
        pipelines=tuple(pipelines),
        depth=size.depth,
        top=size.depth,
        warmup=0,
        recall_queries=0,
    )
    folder = RunFolder.create(directory / "runs", experiment)
    prints = {one.name: one.fingerprint for one in pipelines}
    dataset = read_dataset(collection, "test")
    folder.write("manifest.json", build_manifest(experiment, dataset, "http://simulated", "large@1", {}, prints))
    for number, one in enumerate(pipelines):
        with writable(folder.answers(one.name)).open("w", encoding="utf-8") as file:
            file.writelines(record.line for record in _answers(dice, one, rankings.of[number], size))
        write_run_file(folder, one.name, "measured")
    folder.write("recall.json", RecallReport(backends={}))
    arms = [RankedArm(name=one.name, fingerprint=one.fingerprint, preset=None, pipeline=one) for one in pipelines]
    write_rank_report(folder, ChosenQueries(list(dataset.judgments), []), arms, size.depth, None, size.depth)
    return folder


@dataclass(frozen=True, slots=True)
class _Rankings:
    of: Sequence[Mapping[str, tuple[tuple[str, float], ...]]]  # by pipeline, then query: ids and scores, best first
    judged: Mapping[str, Sequence[str]]


def _simulated(dice: np.random.Generator, size: RunSize) -> _Rankings:
    of: list[dict[str, tuple[tuple[str, float], ...]]] = [{} for _ in range(size.pipelines)]
    judged: dict[str, Sequence[str]] = {}
    for number in range(size.queries):
        query = f"q{number}"
        names = [f"d{at}" for at in dice.choice(size.documents, CANDIDATES, replace=False)]
        shared = SHARED * dice.normal(size=CANDIDATES)
        best = np.argsort(-shared)[: 4 * JUDGED]
        judged[query] = [names[at] for at in dice.choice(best, JUDGED, replace=False)]
        scores = shared + OWN * dice.normal(size=(size.pipelines, CANDIDATES))
        for found, own in zip(of, scores, strict=True):
            order = np.argsort(-own)[: size.depth]
            found[query] = tuple((names[at], round(float(own[at]), 6)) for at in order)
    return _Rankings(of, judged)


def _pipeline(number: int) -> Pipeline:
    weight = (number + 1) / 10
    legs = [{"kind": "retrieve", "id": "bm25", "backend": "lexical"}]
    legs.append({"kind": "retrieve", "id": "dense", "backend": "dense"})
    fuse = {"kind": "fuse", "id": "fuse", "method": "weighted", "weights": [weight, 1 - weight], "inputs": legs}
    return Pipeline.model_validate({"name": f"pipeline-{number}", "stages": [fuse]})


def _answers(
    dice: np.random.Generator, pipeline: Pipeline, rankings: Mapping[str, tuple[tuple[str, float], ...]], size: RunSize
) -> Iterator[AnswerRecord]:
    factors = dice.lognormal(0.0, 0.2, size=size.queries)
    for (query, ranking), factor in zip(rankings.items(), factors, strict=True):
        times = {stage: round(mean * float(factor), 3) for stage, mean in STAGES.items()}
        yield AnswerRecord(
            query=query,
            phase="measured",
            latency_ms=times["total"] + 1.0,
            hits=len(ranking),
            ranking=ranking,
            timings_ms=times,
            request_id=f"{pipeline.name}-{query}",
            generation="large@1",
            fingerprint=pipeline.fingerprint,
        )


def _write_collection(
    directory: Path, dice: np.random.Generator, size: RunSize, judged: Mapping[str, Sequence[str]]
) -> None:
    (directory / "qrels").mkdir(parents=True)

    def words(count: int) -> str:
        return " ".join(WORDS[at] for at in dice.integers(len(WORDS), size=count))

    with (directory / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for number in range(size.documents):
            file.write(json.dumps({"_id": f"d{number}", "title": words(5), "text": words(DOCUMENT_WORDS)}) + "\n")
    with (directory / "queries.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"_id": query, "text": words(6)}) + "\n" for query in judged)
    lines = (f"{query}\t{document}\t1\n" for query, documents in judged.items() for document in documents)
    (directory / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")
