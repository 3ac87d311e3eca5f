"""HTTP routes of the pages of judging: sessions, one pair at a time, verdicts so far, figures after judging."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from evaluator.computing_lock import ComputingLock
from evaluator.errors import EvaluationError
from evaluator.evaluation import measure_again, report_step
from evaluator.form_session import asked_deed, asked_order, asked_session, judge_name
from evaluator.job_state import RUN_NAME
from evaluator.jobs import Jobs
from evaluator.judging.agreement import group_agreement, judge_agreements
from evaluator.judging.consensus import consensus_grades, disputed_pairs
from evaluator.judging.pool import PooledPair
from evaluator.judging.progress_page import MOST_DISPUTED, agreement_blocks
from evaluator.judging.session import JudgingSession, Order
from evaluator.judging_work import SessionVerdicts, SlowWork
from evaluator.page_answers import (
    WAITING,
    FormCookie,
    FormFields,
    PageAnswers,
    html_answer,
    known_run,
    page_number,
    see_other,
    table_answer,
)
from evaluator.pages.judging_pages import ChosenRun, JudgedPair, JudgingPages, SessionState
from evaluator.run_folder import RunFolder
from evaluator.served_sessions import ServedSessions
from evaluator.shown_runs import listed_runs
from evaluator.thread_work import in_thread
from services.chassis.app import router
from services.chassis.errors import Conflict, NotFound
from services.chassis.handling import handled

A_PAGE = 50  # sessions
MOST_RUNS = 16  # of a session
OFFERED = 20  # of the newest runs
OPENING = "Its pairs and what judges did with them are read."
FIELDS: Mapping[str, str] = {"top": "10", "seed": "20250601", "judge": "", "order": "pool"}


def judging_routes(
    jobs: Jobs,
    sessions: ServedSessions,
    pages: JudgingPages,
    answers: PageAnswers,
    slow: SlowWork,
    lock: ComputingLock,
) -> APIRouter:
    """Builds the routes of judging."""
    routes = router()

    @routes.get("/judge", include_in_schema=False)
    @answers.as_page
    async def listed(
        page: str = "1", runs: Annotated[Sequence[str], Query()] = (), evaluator_form: FormCookie = None
    ) -> Response:
        if not runs:
            return html_answer(await asyncio.to_thread(_sessions, jobs, sessions, pages, page_number(page)))
        chosen = await asyncio.to_thread(_chosen, jobs, runs)
        return answers.form_page(lambda token: pages.new_session(chosen, None, FIELDS, token, ""), evaluator_form)

    @routes.post("/judge", include_in_schema=False)
    @handled(slow=True, form=True)
    @answers.as_page
    async def create(request: Request, evaluator_form: FormCookie = None) -> Response:
        fields = await answers.form_fields(request, evaluator_form)
        chosen = await asyncio.to_thread(_chosen, jobs, fields.getlist("runs"))
        ticked = fields.getlist("pipelines")
        try:
            asked = asked_session(ticked, fields)
            known = {f"{one.run}:{name}" for one in chosen for name in one.pipelines}
            if strange := [word for word in asked.pipelines if word not in known]:
                raise NotFound(f"No pipeline {strange[0]} in these runs; load the form again.")
            with lock.held("a new session of judging"):
                name = await in_thread(sessions.create, asked.pipelines, asked.top, asked.seed)
        except EvaluationError as error:
            said = f"{error}."
            shown = {**FIELDS, **fields}
            return answers.form_page(
                lambda token: pages.new_session(chosen, ticked, shown, token, said), evaluator_form, 422
            )
        return see_other(_pair_path(name, asked.judge, asked.order))

    @routes.get("/judge/{session}", include_in_schema=False)
    @answers.as_page
    async def session(
        session: str, order: str = "pool", table: str = "", evaluator_form: FormCookie = None
    ) -> Response:
        by = asked_order(order)
        key = (session, await asyncio.to_thread(sessions.changed_at, session))
        if not slow.states.holds(key):
            slow.states.start(key, partial(_state, sessions, session))
        state = await slow.states.result(key)
        if state is None:
            return html_answer(pages.waiting("Opening the session", OPENING), 200, WAITING)
        if table:
            return table_answer(agreement_blocks(state.agreements, state.group), table)
        runs = [run for run in state.runs if RUN_NAME.fullmatch(run) and jobs.state(run) is not None]
        return answers.form_page(lambda token: pages.session(state, runs, by, token), evaluator_form)

    @routes.get("/judge/{session}/pair", include_in_schema=False)
    @handled(logged=False)
    @answers.as_page
    async def pair(
        session: str,
        judge: str = "",
        order: str = "pool",
        query: str = "",
        document: str = "",
        evaluator_form: FormCookie = None,
    ) -> Response:
        name, by = judge_name(judge), asked_order(order)
        if not sessions.is_open(session, by):
            slow.opening.start((session, by), partial(sessions.open, session, by))
            if await slow.opening.result((session, by)) is None:
                return html_answer(pages.waiting("Opening the session", OPENING), 200, WAITING)
        asked = PooledPair(query, document) if query or document else None
        shown = await asyncio.to_thread(_judged_pair, sessions, session, name, by, asked)
        return answers.form_page(lambda token: pages.pair(shown, token), evaluator_form)

    @routes.post("/judge/{session}/pair", include_in_schema=False)
    @handled(logged=False, form=True)
    @answers.as_page
    async def judged(request: Request, session: str, evaluator_form: FormCookie = None) -> Response:
        fields = await answers.form_fields(request, evaluator_form)
        name, order = judge_name(fields.get("judge", "")), asked_order(fields.get("order", ""))
        back = await asyncio.to_thread(_judge, sessions, session, name, fields)
        return see_other(_pair_path(session, name, order, back))

    @routes.get("/judge/{session}/outlook", include_in_schema=False)
    @answers.as_page
    async def outlook(session: str, order: str = "pool") -> Response:
        by = asked_order(order)
        key = (session, await asyncio.to_thread(sessions.changed_at, session))
        if not slow.verdicts.holds(key):
            slow.verdicts.start(key, partial(_verdicts, sessions, session))
        found = await slow.verdicts.result(key)
        if found is None:
            why = "Tests and intervals are drawn ten thousand times, which takes a while with thousands of queries."
            return html_answer(pages.waiting("Computing the verdict", why), 200, WAITING)
        return html_answer(pages.outlook(session, by, found.outlooks, found.verdicts))

    @routes.post("/measure/{run:path}", include_in_schema=False)
    @handled(form=True)
    @answers.as_page
    async def measure(request: Request, run: str, evaluator_form: FormCookie = None) -> Response:
        fields = await answers.form_fields(request, evaluator_form)
        folder = jobs.folder(known_run(jobs, run))
        session = fields.get("session", "")
        written = sum(size for _, size in await asyncio.to_thread(sessions.changed_at, session)) if session else 0
        slow.measuring.start((run, session, written), partial(_measure, folder, sessions, session))
        return await measured(run, session, written)

    @routes.get("/measure/{run:path}", include_in_schema=False)
    @answers.as_page
    async def measured(run: str, session: str = "", written: int = 0) -> Response:
        key = (known_run(jobs, run), session, written)
        if slow.measuring.holds(key) and await slow.measuring.result(key) is None:
            waiting = pages.waiting("Measuring", f"The quality of {run} is computed, and its report is written.")
            again = urlencode({"session": session, "written": written})
            return html_answer(waiting, 200, {"refresh": f"2; url=/measure/{run}?{again}"})
        return see_other(f"/runs/{run}")

    return routes


def _verdicts(sessions: ServedSessions, name: str) -> SessionVerdicts:
    with sessions.using(name) as session:
        return SessionVerdicts(session.outlooks(), session.verdicts())


def _measure(folder: RunFolder, sessions: ServedSessions, session: str) -> bool:
    """Measures a run by the judgments of a session, or by the dataset's alone where none is named."""
    measure_again(folder, None, [sessions.export(session)] if session else [])
    report_step(folder)
    return True


def _sessions(jobs: Jobs, sessions: ServedSessions, pages: JudgingPages, page: int) -> str:
    names = sessions.names()
    last = max(1, -(-len(names) // A_PAGE))
    if not 1 <= page <= last:
        raise NotFound(f"The list of sessions has the pages 1 to {last}.")
    ranked = list(islice((run for run in jobs.names() if jobs.folder(run).has("rank.json")), OFFERED + 1))
    listed = sessions.listed(names[(page - 1) * A_PAGE : page * A_PAGE])
    return pages.sessions(listed, page, last, listed_runs(jobs, ranked[:OFFERED]), len(ranked) > OFFERED)


def _chosen(jobs: Jobs, runs: Sequence[str]) -> list[ChosenRun]:
    """Returns the runs whose documents are to be judged. Raises NotFound, Conflict, and EvaluationError.

    Whether their rankings are whole is left to the session's creation: it takes reading them.
    """
    if not 1 <= len(runs) <= MOST_RUNS:
        raise Conflict(f"Choose 1 to {MOST_RUNS} runs over one dataset; the page of judging has a box for each.")
    found = []
    for run in dict.fromkeys(runs):
        folder = jobs.folder(known_run(jobs, run))
        if not folder.has("rank.json"):
            raise Conflict(f"Run {run} has not ranked its queries; choose runs that have.")
        experiment = folder.experiment
        found.append(ChosenRun(run, experiment.directory.name, experiment.arms))
    return found


def _state(sessions: ServedSessions, name: str) -> SessionState:
    with sessions.using(name) as session:
        judges = session.grades()
        disputed = disputed_pairs(judges)
        return SessionState(
            name=name,
            file=session.file,
            progress=session.progress(),
            judged=len(consensus_grades(judges)),
            agreements=judge_agreements(judges),
            group=group_agreement(judges),
            disputed=disputed,
            texts=[session.shown(one.pair) for one in disputed[:MOST_DISPUTED]],
            runs=tuple(dict.fromkeys(source.run for source in session.file.sources)),
        )


def _judged_pair(sessions: ServedSessions, name: str, judge: str, order: Order, asked: PooledPair | None) -> JudgedPair:
    """Returns the pair that is asked for, else the next one."""
    with sessions.using(name) as session:
        if asked is not None:
            _expect_pair(session, asked)
        shown = session.next_pair(judge, order) if asked is None else session.shown(asked)
        mine = session.standing(judge).grades.get(shown.pair) if shown is not None else None
        return JudgedPair(name, judge, order, shown, session.progress_of(judge), session.file, mine)


def _judge(sessions: ServedSessions, name: str, judge: str, fields: FormFields) -> PooledPair | None:
    """Does what the form says. Returns the pair to show again, of an undo."""
    deed, grade = asked_deed(fields.get("deed", ""))
    with sessions.using(name) as session:
        if deed == "undo":
            return session.undo(judge)
        pair = PooledPair(fields.get("query", ""), fields.get("document", ""))
        _expect_pair(session, pair)
        if grade is None:
            session.skip(judge, pair)
        else:
            session.grade(judge, pair, grade)
    return None


def _expect_pair(session: JudgingSession, pair: PooledPair) -> None:
    if not session.holds(pair):
        raise NotFound(f"No pair of query {pair.query} and document {pair.document} in this session's pool.")


def _pair_path(session: str, judge: str, order: Order, pair: PooledPair | None = None) -> str:
    asked = {"judge": judge, "order": order} | ({"query": pair.query, "document": pair.document} if pair else {})
    return f"/judge/{quote(session, safe='')}/pair?{urlencode(asked)}"
