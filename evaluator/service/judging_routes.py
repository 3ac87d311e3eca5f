"""HTTP routes of the pages of judging: sessions, one pair at a time, figures after judging."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from evaluator.errors import WrongOption
from evaluator.judging.export import export_by_content
from evaluator.judging.judgment_log import MOST_GRADE, judge_name
from evaluator.judging.pool import PairGrades, PooledPair
from evaluator.judging.session import JudgeProgress, JudgingSession, Order, ShownPair
from evaluator.judging.session_files import SessionFile
from evaluator.report.evaluation import measure_again
from evaluator.report.report_step import choices_of, report_step
from evaluator.runs.run_folder import RunFolder
from evaluator.service.background_work import BackgroundWork
from evaluator.service.jobs import RUN_NAME, Jobs
from evaluator.service.page_answers import FormFields, PageAnswers, form_fields, one_page, see_other, whole_number
from evaluator.service.served_sessions import ServedSessions
from evaluator.service.shown_runs import listed_runs
from services.chassis.app import router
from services.chassis.errors import Conflict, NotFound
from services.chassis.requests.handling import handled

MOST_RUNS = 16  # of a session
OFFERED = 20  # of the newest runs
MOST_TIED = 20
ORDERS: Mapping[Order, str] = {
    "pool": "as drawn, the same pairs for every judge",
    "impact": "first what can change the comparison most, without what another judge has graded",
}
MAKING = "The rankings of its pipelines are read, and the texts of the documents that nobody has judged."


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """What a judge sees: a pair, or None where none is left."""

    session: str
    judge: str
    order: Order
    shown: ShownPair | None
    progress: JudgeProgress
    file: SessionFile
    mine: int | None  # the grade that this judge gave the pair


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the page of a session shows. `tied`: the first pairs without a majority, with their texts."""

    name: str
    file: SessionFile
    progress: Sequence[JudgeProgress]
    judged: int  # pairs that any judge has graded
    ties: int
    tied: Sequence[tuple[PairGrades, ShownPair]]


def judging_routes(
    jobs: Jobs,
    sessions: ServedSessions,
    answers: PageAnswers,
    making: BackgroundWork[str, str],
    measuring: BackgroundWork[str, None],
) -> APIRouter:
    """Builds the routes. `making`: sessions by the form that asked for them; `measuring`: runs, by their name."""
    routes = router()

    @routes.get("/judge", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def listed(page: str = "1", runs: Annotated[Sequence[str], Query()] = ()) -> Response:
        if not runs:
            return await asyncio.to_thread(_sessions, jobs, sessions, answers, whole_number(page))
        chosen = await asyncio.to_thread(_pipelines, jobs, runs)
        return answers.page("judge_new.html", "/judge", runs=chosen, form=secrets.token_hex(8), orders=ORDERS)

    @routes.post("/judge", include_in_schema=False)
    @handled(scope="index", form=True, page=True)
    @answers.reporting
    async def create(request: Request) -> Response:
        fields = await form_fields(request)
        chosen = await asyncio.to_thread(_pipelines, jobs, tuple(fields.getlist("runs")))
        name, by = judge_name(fields.get("judge", "")), _order(fields.get("order", "pool"))
        known = {f"{run}:{name}" for (run, _), names in chosen.items() for name in names}
        words = tuple(dict.fromkeys(fields.getlist("pipelines")))
        if not words or (strange := next((word for word in words if word not in known), "")):
            raise WrongOption(
                f"pipelines: {strange} is not one of these runs" if words else "pipelines: tick one or more"
            )
        top, seed = whole_number(fields.get("top", "")), whole_number(fields.get("seed", ""), 12)
        if not 1 <= top <= 1_000:
            raise WrongOption("top: pool 1 to 1000 documents of each ranking")
        # A form that is sent twice makes one session.
        sent = repr((fields.get("form"), words, top, seed))
        key = hashlib.sha256(sent.encode(errors="surrogatepass")).hexdigest()[:16]
        if not making.holds(key):
            making.start(key, partial(sessions.create, words, top, seed))
        return await made(key, name, by)

    @routes.get("/making/{key}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def made(key: str, judge: str = "", order: str = "pool") -> Response:
        name, by = judge_name(judge), _order(order)
        if not making.holds(key):
            raise NotFound("This session is not being made here: the service was started again, or it failed. The page "
                           "of judging has the sessions that were made.")  # fmt: skip
        session = await making.result(key)
        if session is not None:
            return see_other(_pair_path(session, name, by))
        again = urlencode({"judge": name, "order": by})
        return answers.waiting("Making the session", MAKING, f"/making/{key}?{again}")

    @routes.get("/judge/{session}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def session(session: str, order: str = "pool") -> Response:
        fields = {"judge": "", "order": _order(order)}
        state = await asyncio.to_thread(_state, sessions, session)
        named = dict.fromkeys(source.run for source in state.file.sources)
        runs = [run for run in named if RUN_NAME.fullmatch(run) and jobs.state(run) is not None]
        orders = ORDERS if len(state.file.sources) > 1 else {"pool": ORDERS["pool"]}
        return answers.page("session.html", "/judge", state=state, runs=runs, fields=fields, orders=orders)

    @routes.get("/judge/{session}/pair", include_in_schema=False)
    @handled(scope="search", logged=False, page=True)
    @answers.reporting
    async def pair(session: str, judge: str = "", order: str = "pool", query: str = "", document: str = "") -> Response:
        requested = PooledPair(query, document) if query or document else None
        shown = await asyncio.to_thread(_judged_pair, sessions, session, judge_name(judge), _order(order), requested)
        return answers.page("pair.html", "/judge", pair=shown, grades=tuple(enumerate(shown.file.scale)))

    @routes.post("/judge/{session}/pair", include_in_schema=False)
    @handled(scope="index", logged=False, form=True, page=True)
    @answers.reporting
    async def judged(request: Request, session: str) -> Response:
        fields = await form_fields(request)
        name, order = judge_name(fields.get("judge", "")), _order(fields.get("order", "pool"))
        back = await asyncio.to_thread(_judge, sessions, session, name, fields)
        return see_other(_pair_path(session, name, order, back))

    @routes.post("/measure/{run:path}", include_in_schema=False)
    @handled(scope="index", form=True, page=True)
    @answers.reporting
    async def measure(request: Request, run: str) -> Response:
        session = (await form_fields(request)).get("session", "")
        measuring.start(run, partial(_measured_by, jobs.folder(jobs.expect(run).id), sessions, session))
        return await measured(run)

    @routes.get("/measure/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def measured(run: str) -> Response:
        if measuring.holds(jobs.expect(run).id):
            await measuring.result(run)
        if run not in measuring.at_work():
            return see_other(f"/runs/{run}")
        why = f"The quality of {run} is computed, and its report is written."
        return answers.waiting("Measuring", why, f"/measure/{run}")

    return routes


def _sessions(jobs: Jobs, sessions: ServedSessions, answers: PageAnswers, page: int) -> Response:
    names, last = one_page(sessions.names(), page)
    ranked = list(islice((run for run in jobs.names() if jobs.folder(run).has("rank.json")), OFFERED + 1))
    listed = sessions.listed(names)
    runs, older = listed_runs(jobs, ranked[:OFFERED]), len(ranked) > OFFERED
    return answers.page("judge.html", "/judge", listed=listed, page=page, pages=last, runs=runs, older=older)


def _pipelines(jobs: Jobs, runs: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Returns the pipelines by run and dataset. Raises NotFound, Conflict, and EvaluationError.

    Whether their rankings are whole is left to the session's creation: it takes reading them.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise Conflict(f"Choose 1 to {MOST_RUNS} runs over one dataset; the page of judging has a box for each.")
    chosen = {}
    for run in dict.fromkeys(runs):
        folder = jobs.folder(jobs.expect(run).id)
        if not folder.has("rank.json"):
            raise Conflict(f"Run {run} has not ranked its queries; choose runs that have.")
        chosen[run, folder.experiment.dataset_name] = folder.experiment.arms
    return chosen


def _state(sessions: ServedSessions, name: str) -> SessionState:
    with sessions.using(name) as session:
        graded = session.graded()
        ties = [pair for pair in graded if pair.tied]
        tied = [(pair, session.shown(pair.pair)) for pair in ties[:MOST_TIED]]
        return SessionState(name, session.file, session.progress(), len(graded), len(ties), tied)


def _judged_pair(
    sessions: ServedSessions, name: str, judge: str, order: Order, requested: PooledPair | None
) -> JudgedPair:
    """Returns the pair that is asked for, else the next one."""
    with sessions.using(name) as session:
        if requested is not None:
            _expect_pair(session, requested)
        shown = session.next_pair(judge, order) if requested is None else session.shown(requested)
        grade = session.standing(judge).grades.get(shown.pair) if shown is not None else None
        return JudgedPair(name, judge, order, shown, session.progress_of(judge), session.file, grade)


def _judge(sessions: ServedSessions, name: str, judge: str, fields: FormFields) -> PooledPair | None:
    """Grades, skips or undoes, as the form asks. Returns the pair to show again, of an undo."""
    deed = fields.get("deed", "")
    if deed not in ("skip", "undo", *map(str, range(MOST_GRADE + 1))):
        raise WrongOption(f"grade: {deed[:40]!r} is unknown; a grade is 0 to {MOST_GRADE}, and there are skip and undo")
    with sessions.using(name) as session:
        if deed == "undo":
            return session.undo(judge)
        pair = PooledPair(fields.get("query", ""), fields.get("document", ""))
        _expect_pair(session, pair)
        if deed == "skip":
            session.skip(judge, pair)
        else:
            session.grade(judge, pair, int(deed))
    return None


def _measured_by(folder: RunFolder, sessions: ServedSessions, session: str) -> None:
    """Measures a run by the judgments of a session, or by the dataset's alone where none is named.

    Its report keeps the baseline and the bounds that were asked of it.
    """
    choices, added = choices_of(folder), []
    if session:
        with sessions.using(session) as judged:
            added.append(export_by_content(judged))
    measure_again(folder, None, added)
    report_step(folder, choices)


def _expect_pair(session: JudgingSession, pair: PooledPair) -> None:
    if not session.holds(pair):
        raise NotFound(f"No pair of query {pair.query} and document {pair.document} in this session's pool.")


def _order(text: str) -> Order:
    """Reads the name of an order of judging. Raises WrongOption."""
    known: Order | None = next((name for name in get_args(Order) if name == text), None)
    if known is None:
        raise WrongOption(f"order: {text[:40]!r} is unknown; there are {', '.join(get_args(Order))}")
    return known


def _pair_path(session: str, judge: str, order: Order, pair: PooledPair | None = None) -> str:
    asked = {"judge": judge, "order": order} | ({"query": pair.query, "document": pair.document} if pair else {})
    return f"/judge/{quote(session, safe='')}/pair?{urlencode(asked)}"
