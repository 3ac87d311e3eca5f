"""HTTP routes of the pages of judging: sessions, one pair at a time, verdicts so far, figures after judging."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response

from evaluator.errors import EvaluationError
from evaluator.judging.pool import PooledPair
from evaluator.judging.session import JudgingSession, Order
from evaluator.service.form_session import asked_deed, asked_order, asked_session, judge_name
from evaluator.service.job_state import RUN_NAME
from evaluator.service.jobs import Jobs
from evaluator.service.judging_pages import ChosenRun, JudgedPair, JudgingPages
from evaluator.service.judging_work import SlowWork, measured_by, session_state, session_verdicts
from evaluator.service.page_answers import (
    AGAIN_S,
    WAITING,
    FormFields,
    PageAnswers,
    html_answer,
    known_run,
    page_number,
    see_other,
)
from evaluator.service.requested_sessions import FailedSession, SentForm
from evaluator.service.served_sessions import ServedSessions
from evaluator.service.shown_runs import listed_runs
from services.chassis.access.form_tokens import FormReader, FromReader
from services.chassis.app import router
from services.chassis.errors import Conflict, NotFound, Unavailable
from services.chassis.requests.handling import handled

A_PAGE = 50  # sessions
MOST_RUNS = 16  # of a session
OFFERED = 20  # of the newest runs
MOST_DIGITS = 15  # of the bytes that judges have written
OPENING = "Its pairs and what judges did with them are read."
MAKING = "The rankings of its pipelines are read, and the texts of the documents that nobody has judged."
NOT_AT_WORK = (
    "This session is not being made here: it was made long ago, or the service has been started again since. If it was "
    "made, the list of sessions has it. If not, send this form."
)
FIELDS: Mapping[str, str] = {"top": "10", "seed": "20250601", "judge": "", "order": "pool"}


def judging_routes(
    jobs: Jobs,
    sessions: ServedSessions,
    pages: JudgingPages,
    answers: PageAnswers,
    slow: SlowWork,
) -> APIRouter:
    """Builds the routes of judging."""
    routes = router()

    @routes.get("/judge", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def listed(
        reader: FromReader,
        page: str = "1",
        runs: Annotated[Sequence[str], Query()] = (),
        making: str = "",
        judge: str = "",
        order: str = "pool",
    ) -> Response:
        if making:
            return await made(making, runs, judge_name(judge), asked_order(order), reader)
        if not runs:
            return html_answer(await asyncio.to_thread(_sessions, jobs, sessions, pages, page_number(page)))
        return await form(SentForm("", tuple(runs), None, FIELDS), "", reader, 200)

    @routes.post("/judge", include_in_schema=False)
    @handled(scope="index", form=True, page=True)
    @answers.as_page
    async def create(request: Request, reader: FromReader) -> Response:
        fields = await answers.form_fields(request, reader)
        ticked, runs = tuple(fields.getlist("pipelines")), tuple(fields.getlist("runs"))
        sent = SentForm(fields.get("form", ""), runs, ticked, {**FIELDS, **fields})
        known = {f"{one.run}:{name}" for one in await asyncio.to_thread(_chosen, jobs, runs) for name in one.pipelines}
        try:
            asked = asked_session(ticked, fields)
            if strange := [word for word in asked.pipelines if word not in known]:
                raise NotFound(f"No pipeline {strange[0]} in these runs; load the form again.")
            key = await slow.requested.ask(sent, asked)
        except EvaluationError as error:
            return await form(sent, answers.sentence(error), reader, 422)
        except Unavailable as error:
            again = {"retry-after": str(error.retry_after_s)} if error.retry_after_s is not None else {}
            return await form(sent, error.detail, reader, 503, again)
        return await made(key, runs, asked.judge, asked.order, reader)

    async def made(key: str, runs: Sequence[str], judge: str, order: Order, reader: FormReader) -> Response:
        """Leads to the first pair of a new session, waits for it, or shows the form again and why there is none."""
        if not slow.requested.holds(key):
            sent = SentForm("", tuple(runs), None, {**FIELDS, "judge": judge, "order": order})
            return await form(sent, NOT_AT_WORK, reader, 404)
        outcome = await slow.requested.outcome(key)
        if outcome is None:
            asked = urlencode([*(("runs", run) for run in runs), ("making", key), ("judge", judge), ("order", order)])
            waiting = pages.waiting("Making the session", MAKING)
            return html_answer(waiting, 200, {"refresh": f"{AGAIN_S}; url=/judge?{asked}"})
        if isinstance(outcome, FailedSession):
            status = 503 if isinstance(outcome.error, OSError) else 422
            sent = replace(outcome.sent, fields={**outcome.sent.fields, "judge": judge, "order": order})
            return await form(sent, answers.sentence(outcome.error), reader, status)
        return see_other(_pair_path(outcome.name, judge, order))

    async def form(
        sent: SentForm, problem: str, reader: FormReader, status: int, headers: Mapping[str, str] | None = None
    ) -> Response:
        chosen = await asyncio.to_thread(_chosen, jobs, sent.runs)
        fields = {**sent.fields, "form": secrets.token_hex(8)}
        return answers.form_page(
            lambda token: pages.new_session(chosen, sent.ticked, fields, token, problem), reader, status, headers
        )

    @routes.get("/judge/{session}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def session(session: str, reader: FromReader, order: str = "pool") -> Response:
        by = asked_order(order)
        key = (session, await asyncio.to_thread(sessions.changed_at, session))
        if not slow.states.holds(key):
            slow.states.start(key, partial(session_state, sessions, session))
        state = await slow.states.result(key)
        if state is None:
            return html_answer(pages.waiting("Opening the session", OPENING), 200, WAITING)
        runs = [run for run in state.runs if RUN_NAME.fullmatch(run) and jobs.state(run) is not None]
        return answers.form_page(lambda token: pages.session(state, runs, by, token), reader)

    @routes.get("/judge/{session}/pair", include_in_schema=False)
    @handled(scope="search", logged=False, page=True)
    @answers.as_page
    async def pair(
        session: str,
        reader: FromReader,
        judge: str = "",
        order: str = "pool",
        query: str = "",
        document: str = "",
    ) -> Response:
        name, by = judge_name(judge), asked_order(order)
        if not sessions.is_open(session, by):
            slow.opening.start((session, by), partial(sessions.open, session, by))
            if await slow.opening.result((session, by)) is None:
                return html_answer(pages.waiting("Opening the session", OPENING), 200, WAITING)
        asked = PooledPair(query, document) if query or document else None
        shown = await asyncio.to_thread(_judged_pair, sessions, session, name, by, asked)
        return answers.form_page(lambda token: pages.pair(shown, token), reader)

    @routes.post("/judge/{session}/pair", include_in_schema=False)
    @handled(scope="index", logged=False, form=True, page=True)
    @answers.as_page
    async def judged(request: Request, session: str, reader: FromReader) -> Response:
        fields = await answers.form_fields(request, reader)
        name, order = judge_name(fields.get("judge", "")), asked_order(fields.get("order", ""))
        back = await asyncio.to_thread(_judge, sessions, session, name, fields)
        return see_other(_pair_path(session, name, order, back))

    @routes.get("/judge/{session}/outlook", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def outlook(session: str, order: str = "pool") -> Response:
        by = asked_order(order)
        key = (session, await asyncio.to_thread(sessions.changed_at, session))
        if not slow.verdicts.holds(key):
            slow.verdicts.start(key, partial(session_verdicts, sessions, session))
        found = await slow.verdicts.result(key)
        if found is None:
            why = "Tests and intervals are drawn ten thousand times, which takes a while with thousands of queries."
            return html_answer(pages.waiting("Computing the verdict", why), 200, WAITING)
        return html_answer(pages.outlook(session, by, found.outlooks, found.verdicts))

    @routes.post("/measure/{run:path}", include_in_schema=False)
    @handled(scope="index", form=True, page=True)
    @answers.as_page
    async def measure(request: Request, run: str, reader: FromReader) -> Response:
        fields = await answers.form_fields(request, reader)
        folder = jobs.folder(known_run(jobs, run))
        session = fields.get("session", "")
        written = sum(size for _, size in await asyncio.to_thread(sessions.changed_at, session)) if session else 0
        slow.measuring.start((run, session, written), partial(measured_by, folder, sessions, session))
        return await measured(run, session, str(written))

    @routes.get("/measure/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def measured(run: str, session: str = "", written: str = "0") -> Response:
        key = (known_run(jobs, run), session, page_number(written, MOST_DIGITS))
        if slow.measuring.holds(key) and await slow.measuring.result(key) is None:
            waiting = pages.waiting("Measuring", f"The quality of {run} is computed, and its report is written.")
            again = urlencode({"session": session, "written": written})
            return html_answer(waiting, 200, {"refresh": f"{AGAIN_S}; url=/measure/{run}?{again}"})
        return see_other(f"/runs/{run}")

    return routes


def _sessions(jobs: Jobs, sessions: ServedSessions, pages: JudgingPages, page: int) -> str:
    names = sessions.names()
    last = max(1, -(-len(names) // A_PAGE))
    if not 1 <= page <= last:
        raise NotFound(f"The list of sessions has the pages 1 to {last}.")
    ranked = list(islice((run for run in jobs.names() if jobs.folder(run).has("rank.json")), OFFERED + 1))
    listed = sessions.listed(names[(page - 1) * A_PAGE : page * A_PAGE])
    runs = listed_runs(jobs, ranked[:OFFERED])
    return pages.sessions(listed, sessions.unnameable(), page, last, runs, len(ranked) > OFFERED)


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
        found.append(ChosenRun(run, experiment.dataset_name, experiment.arms))
    return found


def _judged_pair(sessions: ServedSessions, name: str, judge: str, order: Order, asked: PooledPair | None) -> JudgedPair:
    """Returns the pair that is asked for, else the next one."""
    with sessions.using(name) as session:
        if asked is not None:
            _expect_pair(session, asked)
        shown = session.next_pair(judge, order) if asked is None else session.shown(asked)
        mine = session.standing(judge).grades.get(shown.pair) if shown is not None else None
        return JudgedPair(name, judge, order, shown, session.progress_of(judge), session.file, mine)


def _judge(sessions: ServedSessions, name: str, judge: str, fields: FormFields) -> PooledPair | None:
    """Does what the form asks for. Returns the pair to show again, of an undo."""
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
