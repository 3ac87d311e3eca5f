"""Asks every query of a run once more for the candidates of all stages, for deep legs, and for the re-ranker's scores.

Answers may come from caches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.attribution.candidates import (
    CANDIDATES,
    LINES,
    ArmCandidates,
    AskedLeg,
    CandidatesReport,
    ModelScores,
    QueryCandidates,
    read_candidates,
)
from evaluator.client.client import GatewayClient, GatewayError
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.progress import progress
from evaluator.runs.answers import drop_torn_line
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm, search_request
from evaluator.steps.prepared_run import expect_same_answers, prepare_run
from evaluator.steps.rank import expect_runnable
from evaluator.steps.vector_recall import approximate_backends
from services.contracts.base import DEEPEST
from services.contracts.pipelines import MOST_INPUTS, Fuse, Pipeline, Rerank, Retrieve
from services.contracts.query import SearchAnswer, StageCandidates
from services.contracts.retrieval import DEFAULT_BEAM, FIRST_EXTRA
from services.files.disk_writes import naming, whole_file
from services.files.regular_file import read_regular

BEGUN = "candidates.begun.json"
RERANKED = 100  # candidates of every leg and of their fusion whose scores are collected


@dataclass(frozen=True, slots=True)
class Probes:
    """Pipelines that are asked beside those of the run: legs alone, as deep as they go, and re-rankings of legs.

    `rerankers` are by `reranker_name`.
    """

    legs: tuple[AskedLeg, ...]
    rerankers: Mapping[str, Rerank]

    def rerankings(self) -> Iterator[tuple[str, Pipeline]]:
        """Yields pipelines that score the first RERANKED of every leg and of fusions of all, by re-ranker.

        A fusion takes MOST_INPUTS legs, so more are fused in several.
        """
        legs = [leg.retrieve for leg in self.legs]
        sources: list[Retrieve | Fuse] = [_changed(leg, top=min(leg.top, RERANKED)) for leg in legs]
        groups = [tuple(legs[start : start + MOST_INPUTS]) for start in range(0, len(legs), MOST_INPUTS)]
        sources += [Fuse(kind="fuse", inputs=group) for group in groups if len(group) > 1]
        for name, stage in self.rerankers.items():
            for source in sources:
                yield name, Pipeline(name="probe", stages=(source, stage))

    def every(self) -> Iterator[Pipeline]:
        """Yields all pipelines that are asked."""
        for leg in self.legs:
            yield _alone(leg.retrieve)
            if leg.exact is not None:
                yield _alone(leg.exact)
        for _, pipeline in self.rerankings():
            yield pipeline


def probes_of(pipelines: Sequence[Pipeline], vector_backends: frozenset[str]) -> Probes:
    """Returns the probes for pipelines: each distinct leg, and each re-ranker."""
    stages = [stage.stage for pipeline in pipelines for stage in pipeline.identified]
    legs: dict[tuple[object, ...], AskedLeg] = {}
    for stage in stages:
        if isinstance(stage, Retrieve):
            key = (stage.backend, stage.preset, stage.exact, stage.beam)
            legs.setdefault(key, _asked_leg(stage, stage.backend in vector_backends and not stage.exact))
    rerankers = {
        reranker_name(stage): Rerank(kind="rerank", backend=stage.backend, top=RERANKED, passages=stage.passages)
        for stage in stages
        if isinstance(stage, Rerank)
    }
    return Probes(tuple(legs.values()), rerankers)


def leg_name(leg: Retrieve) -> str:
    """Returns the name by which legs with the same candidates are known."""
    parts = [leg.backend, leg.preset or "", "exact" if leg.exact else "", "" if leg.beam is None else f"beam{leg.beam}"]
    return "-".join(filter(None, parts))


def reranker_name(stage: Rerank) -> str:
    """Returns the name by which re-rankings with the same scores of the model are known: of a backend and passages."""
    passages = stage.passages
    return stage.backend if passages is None else f"{stage.backend}-passages{passages.tokens}-{passages.overlap}"


def _asked_leg(stage: Retrieve, approximate: bool) -> AskedLeg:
    """Returns a leg without an id: its pipeline makes one that is that of no other stage or timing."""
    name = leg_name(stage)
    if not approximate:
        return AskedLeg(name=name, retrieve=_changed(stage, id=None, top=DEEPEST), exact=None)
    # As deep as the leg's beam reaches: a wider one would find other candidates, also among the first.
    beam = DEFAULT_BEAM if stage.beam is None else stage.beam
    top = min(DEEPEST, max(stage.top, beam - FIRST_EXTRA))
    exact = Retrieve(kind="retrieve", backend=stage.backend, exact=True, top=DEEPEST)
    return AskedLeg(name=name, retrieve=_changed(stage, id=None, top=top), exact=exact)


def _alone(leg: Retrieve) -> Pipeline:
    return Pipeline(name="probe", stages=(leg,))


def _changed(stage: Retrieve, **update: object) -> Retrieve:
    return Retrieve.model_validate({**stage.model_dump(), **update})


async def collect(client: GatewayClient, folder: RunFolder, top: int) -> CandidatesReport:
    """Writes candidates.jsonl and candidates.json for the queries of a run; goes on where an interrupted call stood."""
    with folder.locked():
        experiment = folder.experiment
        ready = await prepare_run(client, folder)
        expect_same_answers(folder, ready.manifest)
        probes = probes_of([arm.pipeline for arm in ready.arms], approximate_backends(ready.view))
        await expect_runnable(client, experiment, [Arm(probe.name, probe, probe, None) for probe in probes.every()])
        path = folder.path / LINES
        wanted = CandidatesReport(
            made_from=folder.hashes("experiment.json", "manifest.json", "rank.json"),
            pipelines={arm.name: arm.pipeline for arm in ready.arms},
            legs=probes.legs,
            rerankers=tuple(probes.rerankers),
            top=top,
            queries=len(ready.queries.measured),
            failed=0,
        )
        _keep_whole_lines(folder, wanted)
        failed = 0
        done = {line.query for line in read_candidates(path)} if path.exists() else set()
        left = [query for query in ready.queries.measured if query not in done]
        with (
            naming(path),
            path.open("a", encoding="utf-8") as file,
            progress("Candidates", len(left), "queries") as advance,
        ):
            for query in left:
                line = await _query_candidates(
                    _Asker(client, experiment, ready.dataset, query), ready.arms, probes, top
                )
                failed += _failures(line)
                file.write(line.model_dump_json(exclude_defaults=True) + "\n")
                file.flush()
                advance(1)
        hashes = folder.hashes("experiment.json", "manifest.json", "rank.json", LINES)
        report = wanted.model_copy(update={"made_from": hashes, "failed": failed})
        folder.write(CANDIDATES, report)
        return report


def _keep_whole_lines(folder: RunFolder, wanted: CandidatesReport) -> None:
    """Keeps the lines of an interrupted call that asked the same of the same ranking, without torn and failed ones.

    What is asked lies in BEGUN meanwhile; with another depth, pipeline or ranking, the lines are of something else.
    """
    (folder.path / CANDIDATES).unlink(missing_ok=True)
    lines, begun = folder.path / LINES, folder.path / BEGUN
    content = wanted.model_dump_json()
    if not lines.exists() or not begun.exists() or read_regular(begun).decode() != content:
        lines.unlink(missing_ok=True)
        folder.write_text(BEGUN, content)
        return
    drop_torn_line(lines)
    with whole_file(lines) as file:
        for line in read_candidates(lines):
            if not _failures(line):
                file.write(line.model_dump_json(exclude_defaults=True) + "\n")


def _failures(line: QueryCandidates) -> int:
    return len(line.errors) + sum(arm.error is not None for arm in line.arms.values())


async def _query_candidates(asker: "_Asker", arms: Sequence[Arm], probes: Probes, top: int) -> QueryCandidates:
    own = {arm.name: await asker.arm(arm, top) for arm in arms}
    legs, exact = {}, {}
    for leg in probes.legs:
        if (given := await asker.stage(_alone(leg.retrieve))) is not None:
            legs[leg.name] = given
        if leg.exact is not None and (given := await asker.stage(_alone(leg.exact))) is not None:
            exact[leg.name] = given
    scores: dict[str, dict[str, float]] = {name: {} for name in probes.rerankers}
    weights: dict[str, float] = {}

    def keep(name: str, given: StageCandidates) -> None:
        if given.weight is not None:
            scores[name] |= given.model_scores or {}
            weights[name] = given.weight

    for arm in arms:
        for later in arm.pipeline.identified.later:
            if isinstance(later.stage, Rerank) and later.id in own[arm.name].stages:
                keep(reranker_name(later.stage), own[arm.name].stages[later.id])
    for name, pipeline in probes.rerankings():
        if (given := await asker.stage(pipeline)) is not None:
            keep(name, given)
    known = {name: ModelScores(weight=weights[name], scores=scores[name]) for name in weights}
    return QueryCandidates(
        query=asker.query, arms=own, legs=legs, exact=exact, scores=known, errors=tuple(asker.errors)
    )


class _Asker:
    """Asks one query in several ways and keeps what failed."""

    def __init__(self, client: GatewayClient, experiment: Experiment, dataset: Dataset, query: str) -> None:
        self._client = client
        self._experiment = experiment
        self._dataset = dataset
        self.query = query
        self.errors: list[str] = []

    async def arm(self, arm: Arm, top: int) -> ArmCandidates:
        try:
            answer = await self._answer(arm, top)
        except GatewayError as error:
            return ArmCandidates(error=error.kind)
        except EvaluationError:
            return ArmCandidates(error="invalid_query")
        hits = tuple(hit.id for hit in answer.hits)
        return ArmCandidates(hits=hits, stages=answer.candidates or {}, degraded=answer.degraded)

    async def stage(self, pipeline: Pipeline) -> StageCandidates | None:
        """Returns what the last stage of a pipeline gave; None where it failed."""
        try:
            answer = await self._answer(Arm("probe", pipeline, pipeline, None), 1)
        except GatewayError as error:
            self._failed(pipeline, error.kind)
            return None
        except EvaluationError:
            self._failed(pipeline, "invalid_query")
            return None
        if answer.degraded:
            self._failed(pipeline, answer.degraded[0].reason)
        *_, last = pipeline.identified
        return (answer.candidates or {}).get(last.id)

    def _failed(self, pipeline: Pipeline, reason: str) -> None:
        stages = (stage.stage for stage in pipeline.identified)
        names = [leg_name(stage) if isinstance(stage, Retrieve) else stage.kind for stage in stages]
        self.errors.append(f"{'+'.join(names)}: {reason}")

    async def _answer(self, arm: Arm, top: int) -> SearchAnswer:
        plain = search_request(arm, self._dataset, self.query, top)
        request = plain.model_copy(update={"explain": "candidates"})
        return (await self._client.search(self._experiment.target, request, caches=True)).answer
