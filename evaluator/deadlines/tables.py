"""Builds the tables of a deadline sweep, a pipeline each, with what makes its times doubtful. Pure."""

from collections.abc import Collection, Iterator

from evaluator.deadlines.sweep import DEADLINES, AtDeadline, DeadlineReport, DeadlinesFile
from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.page_blocks import Block, Caution, Heading, Sentence, Table
from evaluator.runs.latency import MARKED, Timed
from evaluator.steps.shown_step import ShownStep


def render_deadlines(found: DeadlinesFile) -> Iterator[str]:
    """Yields the parts in Markdown, for the terminal."""
    return markdown_parts(deadline_blocks(found))


def deadline_blocks(found: DeadlinesFile) -> Iterator[Block]:
    """Yields a table a pipeline, and why the times do not hold, if so; then each of them is marked."""
    for report in found.pipelines:
        caption = f"{report.pipeline} over {report.collection}, {', '.join(report.models) or 'no model'}"
        yield Sentence(caption)
        yield Table(f"deadlines-{report.pipeline}", caption, _rows(report, valid=found.timing_valid))
    for reason in found.timing_reasons:
        yield Caution(f"Times: {MARKED}, because {reason}")


def _section(found: DeadlinesFile, charts: Collection[str]) -> list[Block]:
    return [Heading("Deadlines"), *deadline_blocks(found)]


DEADLINES_STEP = ShownStep("deadlines", DEADLINES, DeadlinesFile, _section)


def _rows(report: DeadlineReport, *, valid: bool) -> list[list[str]]:
    header = [
        "deadline ms", "in time", "nDCG@10", "scored", "of candidates", "degraded", "late", "lost",
        "p50 ms", "p95 ms", "slowest ms",
    ]  # fmt: skip
    rows = [
        [f"{one.deadline_ms}", f"{one.in_time:.2%}", f"{one.ndcg_at_10:.4f}",
         "–" if one.scored is None else f"{one.scored:.1f}",
         "–" if one.scored_share is None else f"{one.scored_share:.0%}",
         f"{one.degraded}", f"{one.late}", _lost(one),
         *(Timed(ms, valid).cell(0) for ms in (one.p50_ms, one.p95_ms, one.slowest_ms))]
        for one in report.deadlines
    ]  # fmt: skip
    return [header, *rows]


def _lost(one: AtDeadline) -> str:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(one.errors_by_kind.items()))
    return f"{one.lost} ({kinds})" if kinds else "0"
