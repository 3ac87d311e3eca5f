"""Renders report.html: one file that needs no network, no script and no other file."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.pages.environment import page_environment, style_sheet
from evaluator.pages.sections import PageSection, page_sections
from evaluator.report import Report
from evaluator.report_blocks import report_blocks, report_title


@dataclass(frozen=True, slots=True)
class ReportPage:
    """What the template of a report shows: title, facts beneath it, sections."""

    title: str
    valid: bool
    facts: tuple[tuple[str, str], ...]
    sections: list[PageSection]


def report_page(report: Report, svgs: Mapping[str, str]) -> ReportPage:
    """Returns the page of a report. `svgs`: its charts and those of its load, by path within the run's folder."""
    return ReportPage(
        title=report_title(report),
        valid=report.valid,
        facts=_facts(report),
        sections=page_sections(report_blocks(report, svgs), svgs),
    )


def render_report_html(report: Report, svgs: Mapping[str, str]) -> str:
    """Renders report.html. `svgs`: as of `report_page`."""
    css = style_sheet()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    template = page_environment().get_template("report.html")
    return template.render(page=report_page(report, svgs), css=css, style_hash=f"sha256-{digest}")


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
