"""Runs online experiments: which pipelines answer a unit's search, what replaces a failing one, and interleavings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pydantic_core import to_json

from gateway.backends.budget import Budget
from gateway.search.fitting import UnfitPipeline
from gateway.search.plan import WalkPlan
from gateway.search.walk import include, page_of, walk, walk_both
from gateway.search.walked import StageDegradation, WalkContext, Walked
from services.chassis.errors import Overloaded, ProblemError
from services.chassis.requests.telemetry import request_id
from services.contracts.base import DEEPEST
from services.contracts.online import ExperimentPipeline
from services.contracts.query import SearchRequest
from services.ranking.fusion import continued
from services.ranking.team_draft import team_draft

STAGE = "experiment"


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """An experiment, and the plans of its arms by name, the control first."""

    pipeline: ExperimentPipeline
    plans: Mapping[str, WalkPlan]

    @property
    def control(self) -> WalkPlan:
        """The plan of the first arm."""
        return self.plans[self.pipeline.experiment.control]

    @property
    def fingerprint(self) -> str:
        """The fingerprints of the arms, joined by `+`."""
        return "+".join(plan.fingerprint for plan in self.plans.values())

    def assign(self, unit: str | None, request: SearchRequest) -> "Assigned | None":
        """Returns the part of a unit in the experiment; None for a search outside of it, which the first arm answers.

        Outside are searches without a unit and those after the end; of an interleaving also those that sort or explain.
        """
        declared = self.pipeline.experiment
        if unit is None or (declared.ends is not None and datetime.now(UTC).date() >= declared.ends):
            return None
        if declared.mode == "split":
            return Assigned(self, unit, declared.arm_of(unit))
        return None if request.sort is not None or request.explain else Assigned(self, unit, None)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a search gave by `plan`, or by both arms: `teams` are those of an interleaving by document id.

    `failed`: arms that did not answer, by kind of problem.
    """

    walked: Walked
    plan: WalkPlan
    teams: Mapping[str, str | None] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A unit in an experiment, and its arm; an interleaving has none."""

    experiment: PlannedExperiment
    unit: str
    arm: str | None

    async def show(self, context: WalkContext, budget: Budget) -> Shown:
        """Returns what the unit is shown. Raises what the first arm raises where that fails too.

        `context` has the time of an arm, `budget` all of it: for what answers where an arm hangs.
        """
        if self.arm is None:
            return await self._interleaved(context, budget)
        plan, control = self.experiment.plans[self.arm], self.experiment.control
        try:
            return Shown(await walk(context, plan), plan)
        except ProblemError as problem:
            if plan is control or not is_failure(problem):
                raise
            failure = problem
        walked = _flagged(await walk(replace(context, budget=budget), control), self.arm, failure)
        return Shown(walked, control, failed={self.arm: failure.kind})

    async def _interleaved(self, context: WalkContext, budget: Budget) -> Shown:
        """Walks both arms within one deadline and one admission, and merges them by team draft.

        Where one arm fails, the other answers alone, flagged.
        """
        plans = self.experiment.plans
        walks = dict(zip(plans, await walk_both(context, tuple(plans.values())), strict=True))
        walked = {arm: each for arm, each in walks.items() if isinstance(each, Walked)}
        failures: dict[str, ProblemError] = {}
        for arm, each in walks.items():
            if isinstance(each, ProblemError) and walked and is_failure(each):
                failures[arm] = each
            elif isinstance(each, BaseException):
                raise each
        rankings = {arm: continued(each.ranking, each.beneath.ranking) for arm, each in walked.items()}
        candidates = {hit.id for each in walked.values() for hit in each.ranking}
        answering = next(iter(walked))
        ranking, teams = rankings[answering], None
        if not failures:
            seed = "\0".join((self.experiment.pipeline.experiment.salt, self.unit, context.request.query)).encode()
            (first, ids), (second, others) = ((arm, [hit.id for hit in hits]) for arm, hits in rankings.items())
            teams = dict(team_draft(ids, others, (first, second), DEEPEST, seed))
            hits = {arm: {hit.id: hit for hit in rankings[arm]} for arm in rankings}
            ranking = tuple(hits[team or first][identity] for identity, team in teams.items())
        merged = page_of(_merged(walked), ranking, len(candidates), context.request)
        for arm, failure in failures.items():
            merged = _flagged(merged, arm, failure)
        failed = {arm: failure.kind for arm, failure in failures.items()}
        whole = await include(replace(context, budget=budget), plans[answering], merged)
        return Shown(whole, plans[answering], teams, failed)

    def exposure(
        self, collection: str, request: SearchRequest, ms: float, shown: Shown | None, error: str | None = None
    ) -> bytes:
        """Returns the journal's line (an Exposure) for a search of the unit, which took `ms`. `error`: why there is no
        answer."""
        pipeline = self.experiment.pipeline
        hits = [] if shown is None else [hit.id for hit in shown.walked.ranking]
        line = to_json(
            {
                "query_id": request_id(),
                "client_id": self.unit,
                "timestamp": datetime.now(UTC),
                "query_response_hit_ids": hits,
                "query_attributes": {
                    "experiment": pipeline.name,
                    "salt": pipeline.experiment.salt,
                    "mode": pipeline.experiment.mode,
                    "metric": pipeline.experiment.metric,
                    "control": pipeline.experiment.control,
                    "arm": self.arm,
                    "shares": pipeline.experiment.shares,
                    "collection": collection,
                    "offset": request.offset or 0,
                    "teams": None if shown is None or shown.teams is None else [shown.teams[hit] for hit in hits],
                    "failed": {} if shown is None else shown.failed,
                    "error": error,
                    "degraded": shown is not None and bool(shown.walked.degraded),
                    "ms": round(ms, 3),
                },
            }
        )
        return line + b"\n"


def is_failure(problem: ProblemError) -> bool:
    """Returns whether a search failed through no fault of its caller's."""
    return problem.status >= 500 or isinstance(problem, Overloaded | UnfitPipeline)


def _flagged(walked: Walked, arm: str, failure: ProblemError) -> Walked:
    return walked.degrade(STAGE, STAGE, "failed", f"arm '{arm}': {failure.detail}", 0, 1)


def _merged(walks: Mapping[str, Walked]) -> Walked:
    """Returns what is known of the walks, by ids of stages behind the names of their arms. Texts and counts are those
    of the first."""
    degraded = (
        StageDegradation(each.kind, each.degradation.model_copy(update={"stage": f"{arm}.{each.degradation.stage}"}))
        for arm, walked in walks.items()
        for each in walked.degraded
    )
    return replace(
        next(iter(walks.values())),
        degraded=tuple(degraded),
        timings_ms={f"{arm}.{stage}": ms for arm, it in walks.items() for stage, ms in it.timings_ms.items()},
        parts_ms={f"{arm}.{stage}": parts for arm, it in walks.items() for stage, parts in it.parts_ms.items()},
        models={f"{arm}.{stage}": model for arm, it in walks.items() for stage, model in it.models.items()},
    )
