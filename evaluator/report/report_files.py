"""Writes what a reader opens of a report: report.md, report.html, `charts/*.svg`, `tables/*.csv` and `tables/*.tex`."""

from evaluator.pages.page_blocks import tables_of
from evaluator.pages.table_files import write_tables
from evaluator.report.render import render_page
from evaluator.report.report import Report
from evaluator.report.report_blocks import report_blocks
from evaluator.report.report_charts import report_charts
from evaluator.report.report_page import render_report_html
from evaluator.runs.run_folder import RunFolder, writable
from services.access.regular_file import read_regular
from services.disk_writes import write_whole


def write_pages(folder: RunFolder, report: Report) -> None:
    """Writes the pages of a report and the charts and tables beside them; those of an earlier report are removed."""
    for old in (*(folder.path / "charts").glob("*.svg"), *(folder.path / "tables").glob("*.*")):
        old.unlink()
    drawn = report_charts(report)
    for path, svg in drawn.items():
        write_whole(writable(folder.path / path), svg)
    write_tables(folder.path / "tables", tables_of(report_blocks(report)))
    svgs = drawn | step_charts(folder)
    folder.write_text("report.md", render_page(report, svgs))
    folder.write_text("report.html", render_report_html(report, svgs))


def step_charts(folder: RunFolder) -> dict[str, str]:
    """Reads the charts that `load` and `attribute` have drawn, by path within the folder."""
    return {
        f"{step}/{path.name}": read_regular(path).decode()
        for step in ("load", "attribution")
        for path in sorted((folder.path / step).glob("*.svg"))
    }
