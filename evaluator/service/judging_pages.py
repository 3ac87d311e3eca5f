"""Renders the pages of judging: sessions, a session, one pair at a time. Knows no HTTP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment

from evaluator.comparison.verdict import PairedComparison
from evaluator.judging.agreement import GroupAgreement, JudgeAgreement
from evaluator.judging.consensus import DisputedPair
from evaluator.judging.outlook import VerdictOutlook
from evaluator.judging.progress_page import (
    MOST_DISPUTED,
    agreement_blocks,
    disputed_count,
    grades_in_words,
    outlook_sentence,
    scale_remark,
)
from evaluator.judging.session import JudgeProgress, Order, ShownPair
from evaluator.judging.session_files import SessionFile
from evaluator.pages.html_page import page_sections
from evaluator.pages.page_blocks import Block, Heading, Sentence, Verdict
from evaluator.service.service_pages import ListedRun

ORDERS: Mapping[Order, str] = {
    "pool": "as drawn, the same pairs for every judge: their agreement can be measured",
    "others": "as drawn, without what another judge has graded",
    "impact": "first what can change the comparison most, without what another judge has graded",
}


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in the list. `file`: None where it is of another release. `fault`: why it cannot go on."""

    name: str
    file: SessionFile | None
    judges: tuple[str, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """A run whose pipelines can be pooled."""

    run: str
    dataset: str
    pipelines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionState:
    """What the page of a session shows. `texts`: of the first of the disputed pairs. `runs`: of its pipelines."""

    name: str
    file: SessionFile
    progress: Sequence[JudgeProgress]
    judged: int  # pairs that any judge has graded
    agreements: Sequence[JudgeAgreement]
    group: GroupAgreement | None
    disputed: Sequence[DisputedPair]
    texts: Sequence[ShownPair]
    runs: Sequence[str]


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """What a judge sees: a pair, or None where none is left. `again`: the pair was asked for by name."""

    session: str
    judge: str
    order: Order
    shown: ShownPair | None
    progress: JudgeProgress
    file: SessionFile
    mine: int | None  # the grade that this judge gave the pair


class JudgingPages:
    """Renders from the templates of one process."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def sessions(
        self,
        listed: Sequence[ListedSession],
        unnameable: Sequence[str],
        page: int,
        pages: int,
        runs: Sequence[ListedRun],
        older: bool,
    ) -> str:
        """Renders the list of sessions, and the choice of runs for a new one. `older`: there are more runs."""
        return self._rendered(
            "judge.html", listed=listed, unnameable=unnameable, page=page, pages=pages, runs=runs, older=older
        )

    def new_session(
        self,
        runs: Sequence[ChosenRun],
        ticked: Sequence[str] | None,
        fields: Mapping[str, str],
        token: str,
        error: str,
    ) -> str:
        """Renders the form that makes a session. `ticked`: pipelines chosen before; None: all are."""
        every = [f"{one.run}:{name}" for one in runs for name in one.pipelines]
        return self._rendered(
            "judge_new.html",
            runs=runs,
            ticked=every if ticked is None else ticked,
            fields=fields,
            orders=ORDERS,
            token=token,
            error=error,
        )

    def session(self, state: SessionState, runs: Sequence[str], order: Order, token: str) -> str:
        """Renders the page of a session. `runs`: those of its runs that can be measured by its judgments.

        `order`: in which its reader judges, kept by the links.
        """
        blocks: list[Block] = agreement_blocks(state.agreements, state.group)
        return self._rendered(
            "session.html",
            state=state,
            runs=runs,
            order=order,
            scale=scale_remark(state.file),
            orders={name: label for name, label in ORDERS.items() if name != "impact" or len(state.file.sources) > 1},
            agreement=page_sections([Heading("Agreement"), *blocks], {}) if blocks else [],
            disputed=[
                (pair, shown, grades_in_words(pair))
                for pair, shown in zip(state.disputed[:MOST_DISPUTED], state.texts, strict=True)
            ],
            disputed_count=disputed_count(state.disputed),
            token=token,
        )

    def pair(self, pair: JudgedPair, token: str) -> str:
        """Renders one pair to be graded."""
        done = pair.progress.graded + pair.progress.skipped
        return self._rendered(
            "pair.html",
            pair=pair,
            grades=tuple(enumerate(pair.file.scale)),
            scale=scale_remark(pair.file),
            done=done,
            of=done + pair.progress.left,
            token=token,
        )

    def outlook(
        self, name: str, order: Order, outlooks: Mapping[str, VerdictOutlook], verdicts: Sequence[PairedComparison]
    ) -> str:
        """Renders the verdicts by the judgments so far, and whether the pairs that are left can change them."""
        blocks: list[Block] = []
        for verdict in verdicts:
            blocks += [Verdict(verdict.sentence), Sentence(outlook_sentence(outlooks[verdict.second]))]
        return self._rendered("outlook.html", name=name, order=order, sections=page_sections(blocks, {}))

    def waiting(self, title: str, why: str) -> str:
        """Renders the page of a result that is being computed."""
        return self._rendered("waiting.html", title=title, why=why)

    def _rendered(self, template: str, **values: object) -> str:
        return self._environment.get_template(template).render(here="/judge", **values)
