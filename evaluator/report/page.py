"""Renders a report: its page in HTML and Markdown, and a table for the terminal. Pure; writes no file."""

from collections.abc import Collection, Mapping

from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.markdown_table import aligned
from evaluator.pages.sections import page_sections
from evaluator.pages.standalone_page import StandalonePage, render_standalone
from evaluator.report.quality_section import pipeline_rows
from evaluator.report.report import Report
from evaluator.report.sections import report_blocks


def report_page(report: Report, svgs: Mapping[str, str]) -> StandalonePage:
    """Returns the page of a report. `svgs`: its charts and those of its load, by path within the run's folder."""
    return StandalonePage(
        title=report.title,
        valid=report.valid,
        status=report.status,
        facts=_facts(report),
        sections=page_sections(report_blocks(report, svgs), svgs),
        marked=not report.times_hold,
    )


def render_report_html(report: Report, svgs: Mapping[str, str]) -> str:
    """Renders report.html. `svgs`: as of `report_page`."""
    return render_standalone(report_page(report, svgs), "tables/")


def render_report_markdown(report: Report, charts: Collection[str] = ()) -> str:
    """Renders report.md. `charts`: paths of those that are there, within the run's folder."""
    return "\n\n".join([f"# {report.title}", *markdown_parts(report_blocks(report, charts))]) + "\n"


def render_table(report: Report) -> str:
    """Renders the pipelines, one a row, as a Markdown table aligned for a terminal."""
    return aligned(pipeline_rows(report))


def _facts(report: Report) -> tuple[tuple[str, str], ...]:
    queries = max(outcome.queries for outcome in report.pipelines.values())
    return (
        ("Documents", f"{report.counts.documents:,}"),
        ("Queries", f"{queries:,}{' (a sample)' if report.sample else ''}"),
        ("Pipelines", str(len(report.pipelines))),
        ("Engines", ", ".join(f"{name}: {engine}" for name, engine in report.engine.items()) or "imported"),
        ("Started", report.manifest.started_utc),
    )
