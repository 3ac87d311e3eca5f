"""Renders how far a session is, how judges agree, and what the verdict can still become. Pure; Markdown."""

from collections.abc import Mapping, Sequence

from evaluator.comparison.verdict import PairedComparison
from evaluator.judging.agreement import GRADES, GroupAgreement, JudgeAgreement
from evaluator.judging.consensus import DisputedPair
from evaluator.judging.outlook import CONFIDENCE, VerdictOutlook
from evaluator.judging.session import JudgeProgress
from evaluator.judging.session_files import SCALES, SessionFile
from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.markdown_table import aligned
from evaluator.pages.page_blocks import Block, Prose, Sentence, Table

MOST_DISPUTED = 20


def render_session(file: SessionFile) -> str:
    """Renders what the pool is."""
    sources = ", ".join(source.label for source in file.sources)
    return (
        f"{file.pairs} pairs of {len(file.queries)} judged queries of {file.dataset}, split {file.split}: the unjudged "
        f"documents among the first {file.top} of {sources}."
    )


def scale_remark(file: SessionFile) -> str:
    """Says why the grades end where those of the collection do; nothing where that is not below ours."""
    if len(file.scale) == max(SCALES) + 1:
        return ""
    return (
        f"Grades end at {len(file.scale) - 1}, as in the judgments so far. The gain in nDCG is the grade: with higher "
        "ones your relevant documents would count more than theirs."
    )


def render_progress(found: Sequence[JudgeProgress], pairs: int, judged: int) -> str:
    """Renders a row a judge. `judged`: pairs that any judge has graded."""
    rows = [["judge", "graded", "skipped", "left"]]
    rows += [[one.judge, str(one.graded), str(one.skipped), str(one.left)] for one in found]
    table = f"{aligned(rows)}\n\n" if found else ""
    return f"{table}{judged} of {pairs} pairs are judged."


def agreement_blocks(found: Sequence[JudgeAgreement], group: GroupAgreement | None) -> list[Block]:
    """Returns kappas and the confusion of each two judges that share pairs; nothing for a single judge."""
    if not found:
        return []
    rows = [["judges", "pairs", "equal", "kappa", "linear", "quadratic"]]
    for one in found:
        figures = (one.agreement, one.kappa, one.kappa_linear, one.kappa_quadratic)
        rows.append([f"{one.first}, {one.second}", str(one.pairs), *map(_figure, figures)])
    blocks: list[Block] = [
        Prose("Share of equal grades, and Cohen's kappa: unweighted, with linear and with quadratic weights."),
        Table("agreement", "Agreement of each two judges", rows),
    ]
    if group is not None:
        agreement = f"Fleiss' kappa of all {len(group.judges)} judges: {_figure(group.kappa)} ({group.pairs} pairs)."
        blocks.append(Sentence(agreement))
    return blocks + [_confusion(one) for one in found if one.pairs]


def render_agreement(found: Sequence[JudgeAgreement], group: GroupAgreement | None) -> list[str]:
    """Renders the agreement, part by part."""
    return list(markdown_parts(agreement_blocks(found, group)))


def render_disputed(found: Sequence[DisputedPair]) -> list[str]:
    """Renders the pairs on which judges differ most."""
    if not found:
        return []
    rows = [["query", "document", "grades"]]
    for one in found[:MOST_DISPUTED]:
        rows.append([one.pair.query, one.pair.document, grades_in_words(one)])
    return [f"Disputed pairs: {disputed_count(found)}.", aligned(rows)]


def disputed_count(found: Sequence[DisputedPair]) -> str:
    """Says how many pairs are disputed, and how many of them are shown."""
    more = f", of which the first {MOST_DISPUTED} are shown" if len(found) > MOST_DISPUTED else ""
    return f"{len(found)}{more}"


def grades_in_words(pair: DisputedPair) -> str:
    """Returns who gave which grade."""
    return ", ".join(f"{judge} {grade}" for judge, grade in pair.grades.items())


def render_outlooks(outlooks: Mapping[str, VerdictOutlook], verdicts: Sequence[PairedComparison]) -> list[str]:
    """Renders the verdict of each pipeline by the judgments so far, and whether it can still change."""
    return [f"{verdict.sentence}\n{outlook_sentence(outlooks[verdict.second])}" for verdict in verdicts]


def outlook_sentence(outlook: VerdictOutlook) -> str:
    """Says whether the pairs that are left can change the verdict."""
    if outlook.settled:
        return f"What is left cannot change this verdict ({CONFIDENCE:.0%} confidence): judging may stop."
    shares = ", ".join(
        f"{outcome} {share:.0%}" for outcome, share in sorted(outlook.shares.items(), key=lambda one: -one[1]) if share
    )
    return f"What is left can change this verdict; with every pair judged it would be: {shares}."


def _confusion(found: JudgeAgreement) -> Table:
    rows = [[f"{found.first} \\ {found.second}", *map(str, GRADES)]]
    rows += [[str(grade), *map(str, counts)] for grade, counts in zip(GRADES, found.confusion, strict=True)]
    caption = f"Pairs by grade of {found.first} (rows) and of {found.second} (columns)"
    # A file's name and an anchor: no spaces, and no dot is in the name of a judge.
    first, second = (judge.replace(" ", ".") for judge in (found.first, found.second))
    return Table(f"confusion-{first}-{second}", caption, rows)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"
