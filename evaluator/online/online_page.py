"""Builds the page of online experiments, for the terminal and the evaluator's service. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.online.online_report import ArmVerdict, OnlineReport, interval_text
from evaluator.pages.html_page import Page
from evaluator.pages.page_blocks import Block, Bullets, Caution, Heading, Sentence, Table, Verdict


def online_page(reports: Sequence[OnlineReport]) -> Page:
    """Returns the page of one or several experiments, each a section."""
    nothing = () if reports else (Sentence("The journal has no search of an experiment yet."),)
    return Page("Online experiments", [*nothing, *(block for report in reports for block in _blocks(report))], {})


def _blocks(report: OnlineReport) -> Iterator[Block]:
    name = report.experiment
    yield Heading(name)
    yield Sentence(
        f"{report.units:,} units since {report.began:%Y-%m-%d %H:%M}, as of {report.now:%Y-%m-%d %H:%M %Z} (salt "
        f"{report.salt}, {report.mode}). {report.open:,} do not count yet: their first 24 hours are not over."
    )
    if report.ratio:
        yield Caution(report.ratio) if report.alarm else Sentence(report.ratio)
    for verdict in report.verdicts:
        yield Verdict(verdict.sentence)
        yield Sentence(_how_long(verdict, report.effect))
    yield Sentence(
        f"Only {report.metric} has a verdict. Differences are from {report.control}. They weigh units by their shares "
        "at entry, so they are near the differences of the means."
        if report.mode == "split"
        else "Credits: a search's clicked hits of the second arm minus those of the first, where they rank differently."
    )
    metrics = [
        (
            one.metric,
            one.arm,
            str(one.units),
            "–" if one.mean is None else f"{one.mean:.4f}",
            "–" if one.difference is None else f"{one.difference:+z.4f}",
            "–" if one.interval is None else interval_text(one.interval),
        )
        for one in report.metrics
    ]
    header = ("metric", "arm", "units", "mean", "difference", "95 % interval")
    yield Table(f"metrics-{name}", f"Metrics of {name}", [header, *metrics])
    costs = [
        (one.arm or "both", str(one.searches), f"{one.p95_ms:.1f}", f"{one.errors:.2%}", f"{one.degraded:.2%}")
        for one in report.guardrails
    ]
    columns = ("arm", "searches", "p95 ms", "errors", "degraded")
    yield Table(f"guardrails-{name}", f"Guardrails of {name}", [columns, *costs])
    if report.left_out:
        yield Sentence("Left out:")
        yield Bullets(tuple(f"{count:,} {what}" for what, count in report.left_out.items()))


def _how_long(verdict: ArmVerdict, effect: float) -> str:
    if verdict.needed is None:
        return f"From 100 units per arm on, this says how many units show a difference of {effect:g}."
    words = f"About {verdict.needed:,} units in all show a difference of {effect:g} (`--effect`)"
    if verdict.days is None:
        return f"{words}; none came in the last 7 days."
    return f"{words}: {f'{verdict.days:.1f} more days at the present pace' if verdict.days else 'they are here'}."
