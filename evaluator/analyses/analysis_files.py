"""Writes the folder of an analysis: analysis.md, analysis.json, tables/ (CSV, LaTeX) and figures/ (SVG)."""

from datetime import UTC, datetime
from pathlib import Path

from evaluator.analyses.analysis_report import Analysis
from evaluator.analyses.averages import set_rows
from evaluator.analyses.drawing import paper_figures
from evaluator.analyses.page import render_analysis
from evaluator.analyses.paper_tables import paper_tables
from evaluator.datasets.catalogue import load_catalogue
from evaluator.errors import WrongOption
from evaluator.runs.run_folder import utc_stamp
from services.files.disk_writes import write_whole

FOLDER = "analyses"  # below that of all runs


def new_analysis_folder(out: Path | None, runs: Path) -> Path:
    """Returns where the analysis is to lie: `out`, else a new name below the folder of runs. Creates nothing.

    Raises WrongOption where `out` holds files: those of another analysis would stay among the new ones.
    """
    if out is None:
        return runs / FOLDER / utc_stamp(datetime.now(UTC))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise WrongOption(f"--out {out}: it is there already; name a new or an empty folder")
    return out


def write_analysis(analysis: Analysis, folder: Path) -> None:
    """Renders everything, then writes it."""
    rows = set_rows(analysis.sets, load_catalogue())
    tables, figures = paper_tables(analysis, rows), paper_figures(analysis, rows)
    files = {
        **{f"tables/{table.name}.csv": table.csv() for table in tables},
        **{f"tables/{table.name}.tex": table.latex() for table in tables},
        **{f"figures/{name}.svg": figure.svg for name, figure in figures.items()},
        "analysis.json": analysis.model_dump_json(indent=2) + "\n",
        "analysis.md": render_analysis(analysis, tables, figures),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, newline="")
