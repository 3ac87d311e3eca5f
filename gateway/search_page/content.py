"""Owns the content of the page as a value: the form, the lists or the problem, and the HTTP status. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.search_page.form import Offered, PageSearch, TypedForm
from gateway.search_page.sides import Outcome, ShownProblem, ShownSide, comparison, shown_sides
from services.chassis.errors import ProblemError
from services.contracts.pipelines import PipelineView


@dataclass(frozen=True, slots=True)
class PageContent:
    """What the page shows.

    `hidden`: names, scores, times and stages of the lists are not shown until a preference is noted; `opened` is the
    URL that shows them. `compared` is what a preference is about, as JSON, or empty. `replaced`: another generation of
    the collection was published between the two searches, so the lists cannot be compared.
    """

    form: TypedForm
    collections: tuple[str, ...]
    pipelines: tuple[str, ...]
    sides: tuple[ShownSide, ...] = ()
    problem: ShownProblem | None = None
    retry_after_s: int | None = None
    hidden: bool = False
    opened: str = ""
    compared: str = ""
    replaced: bool = False
    status: int = 200

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers beside those of every page."""
        return {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}


def empty_page(form: TypedForm, offered: Offered, problem: ProblemError | None = None) -> PageContent:
    """Returns the form alone, or with the problem that left nothing else to show."""
    # What was typed stays chosen although it is not offered: a choice must not change silently.
    collections = _with(offered.collections, form.collection)
    pipelines = _with(offered.pipelines, form.left, form.right)
    if problem is None:
        return PageContent(form, collections, pipelines)
    shown, status = ShownProblem.of(problem), problem.status
    return PageContent(form, collections, pipelines, (), shown, problem.retry_after_s, status=status)


def answered_page(
    form: TypedForm,
    offered: Offered,
    asked: PageSearch,
    outcomes: Sequence[Outcome],
    views: Mapping[str, PipelineView],
) -> PageContent:
    """Returns the lists. The status is that of the first problem where no search has an answer, else 200."""
    problems = [one for one in outcomes if isinstance(one, ProblemError)]
    if len(problems) == len(outcomes) and len({one.detail for one in problems}) == 1:
        return empty_page(form, offered, problems[0])
    sides = shown_sides(asked, outcomes, views)
    compared = comparison(asked, sides)
    generations = {side.answer.collection for side in sides if side.answer is not None}
    failed = problems[0] if len(problems) == len(outcomes) else None
    return PageContent(
        form,
        _with(offered.collections, form.collection),
        _with(offered.pipelines, form.left, form.right),
        sides,
        retry_after_s=None if failed is None else failed.retry_after_s,
        hidden=asked.blind and bool(compared),
        opened=form.opened(asked.pipelines),
        compared=compared,
        replaced=len(generations) > 1,
        status=200 if failed is None else failed.status,
    )


def _with(names: tuple[str, ...], *typed: str) -> tuple[str, ...]:
    return (*names, *(name for name in dict.fromkeys(typed) if name and name not in names))
