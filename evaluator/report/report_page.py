"""Renders report.html, and gives the page of a report to the service."""

from collections.abc import Mapping

from evaluator.pages.sections import page_sections
from evaluator.pages.standalone_page import StandalonePage, render_standalone
from evaluator.report.report import Report
from evaluator.report.report_blocks import report_blocks, report_title


def report_page(report: Report, svgs: Mapping[str, str]) -> StandalonePage:
    """Returns the page of a report. `svgs`: its charts and those of its load, by path within the run's folder."""
    return StandalonePage(
        title=report_title(report),
        valid=report.valid,
        facts=_facts(report),
        sections=page_sections(report_blocks(report, svgs), svgs),
    )


def render_report_html(report: Report, svgs: Mapping[str, str]) -> str:
    """Renders report.html. `svgs`: as of `report_page`."""
    return render_standalone(report_page(report, svgs), "tables/")


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    queries = max(outcome.queries for outcome in report.pipelines.values())
    match report.timing_valid:
        case None:
            times = "none"
        case True:
            times = "valid"
        case False:
            times = "not valid"
    return (
        ("Documents", f"{report.counts.documents:,}"),
        ("Queries", f"{queries:,}{' (a sample)' if report.sample else ''}"),
        ("Pipelines", str(len(report.pipelines))),
        ("Engines", ", ".join(f"{name}: {engine}" for name, engine in report.engine.items()) or "imported"),
        ("Started", report.manifest.started_utc),
        ("Times", times),
    )
