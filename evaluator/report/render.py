"""Renders a report: a table for the terminal, a page of Markdown for the run folder. Pure; writes no file."""

from collections.abc import Collection

from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.markdown_table import aligned
from evaluator.report.report import Report
from evaluator.report.report_blocks import report_blocks, report_title
from evaluator.report.report_tables import pipeline_rows


def render_table(report: Report) -> str:
    """Renders the pipelines, one a row, as a Markdown table aligned for a terminal."""
    return aligned(pipeline_rows(report))


def render_page(report: Report, charts: Collection[str] = ()) -> str:
    """Renders report.md. `charts`: paths of those that are there, within the run's folder."""
    return "\n\n".join([f"# {report_title(report)}", *markdown_parts(report_blocks(report, charts))]) + "\n"
