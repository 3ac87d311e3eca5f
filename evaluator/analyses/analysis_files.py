"""Renders the page of an analysis, and writes its folder: analysis.md, analysis.json and figures/ (SVG)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from evaluator.analyses.analysis_report import Analysis
from evaluator.analyses.averages import set_rows
from evaluator.analyses.drawing import PaperFigure, paper_figures
from evaluator.analyses.figure_table import FigureTable
from evaluator.analyses.paper_tables import paper_tables
from evaluator.analyses.systems_tables import verdicts
from evaluator.datasets.catalogue import load_catalogue
from evaluator.errors import WrongOption
from evaluator.runs.run_folder import utc_stamp
from services.files.disk_writes import write_whole

FOLDER = "analyses"  # below that of all runs
# What a reader must know of a table or figure, by the beginning of its name.
_EXPLANATIONS = {
    "table-1": "Words are separated by white space; a document is title and text. Queries are the judged ones of the "
    "split.",
    "table-2-against": "Against the baseline: the relative difference of the two means over the sets that both have, "
    "which is how the paper's row comes out nearest. Beside it the mean of the sets' own relative differences. Better "
    "and worse count any difference; `compare` says whether one is significant. Compare means over common sets alone.",
    "systems-side-by-side": "A stand-in carries its own name and model; the originals have other weights. CPU a "
    "point: all CPU of a query, divided by the points (0.01) of nDCG@10 over the baseline. What expansions cost to "
    "make is in no column.",
    "significance": "Two-sided sign-flip test of each query's differences. All pairs of a set are one family.",
    "fusions": "By reciprocal ranks (k 60) of the first 100 documents, or of all where there are fewer. Held out: each "
    "query is measured with the fusion that the other folds choose; the columns before it are of the fusion that all "
    "queries chose.",
    "table-3-served": "One query at a time, as the client saw it. CPU: of all named processes, with what they do in "
    "the background. Index: of what the pipeline reads, with texts and logs that its engines keep there.",
    "table-3-processes": "CPU while the collection was loaded, where all of its documents were new. Memory: the "
    "resident set after the queries; of Elasticsearch, what the JVM has committed.",
    "published-ndcg": "Published figures are as printed. Other engines, models and settings made them; `parity` "
    "names those of the presets.",
    "published-recall": "This is Recall@100 as trec_eval has it, not capped.",
    "table-4": "A hole is a document that nobody judged for the query. nDCG counts it as not relevant.",
    "table-9": "Relevant documents among the first 100, divided by the lesser of 100 and all relevant ones.",
    "figure-2": "Weighted Jaccard similarity of the shares of all words (runs of letters and digits in lower "
    "case). The diagonal, always 1, is left empty.",
    "figure-3": "nDCG@10 of the pipeline less that of the baseline, on sets that both have.",
    "figures-4-5": "One length for each pair of query and document. Dots are medians, bars the middle half.",
}


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
        **{f"figures/{name}.svg": figure.svg for name, figure in figures.items()},
        "analysis.json": analysis.model_dump_json(indent=2) + "\n",
        "analysis.md": "\n\n".join(_parts(analysis, tables, figures)) + "\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, newline="")


def _parts(analysis: Analysis, tables: Sequence[FigureTable], figures: Mapping[str, PaperFigure]) -> Iterator[str]:
    """Yields the parts of analysis.md. `figures` by file name without its ending, in `figures/`."""
    yield f"# Analysis of {_counted(len(analysis.pipelines), 'pipeline')} on {_counted(len(analysis.sets), 'set')}"
    yield (
        f"Baseline: {analysis.baseline}. The tables and figures have the numbers of the BEIR paper (Thakur et al. "
        "2021, arXiv 2104.08663). A dash is a figure that is missing; why stands below the table."
    )
    yield from verdicts(analysis)
    if analysis.notes:
        yield "\n".join(f"- **{note}**" for note in analysis.notes)
    yield from _runs(analysis)
    shown = {table.name: table for table in tables}
    for name, table in shown.items():
        yield f"## {table.heading}"
        if explained := _explained(name):
            yield explained
        yield table.markdown()
        if table.why_missing:
            yield "\n".join(f"- {reason}" for reason in table.why_missing)
        if name == "table-4-holes" and not any(part.added_judgments for part in analysis.sets):
            yield (
                "nDCG@10 after the holes are judged is not here: give the new judgments with `--judgments SET=FILE` "
                "(BEIR's qrels or TREC's)."
            )
        # A figure and the table of what it shows have one name; of a figure a set, the set stands behind it.
        for file, figure in figures.items():
            if file.startswith(name):
                yield f"![{figure.description}](figures/{file}.svg)"
    if len(analysis.sets) < 2:
        yield "Figure 2, the overlap of vocabularies, needs at least two sets."
    if len(analysis.pipelines) < 2:
        yield f"Figure 3, the differences from {analysis.baseline}, needs another pipeline."


def _runs(analysis: Analysis) -> Iterator[str]:
    runs = dict.fromkeys(figures.run for part in analysis.sets for figures in part.pipelines.values())
    yield "Runs:"
    yield "\n".join(f"- {run}" for run in runs)


def _explained(name: str) -> str | None:
    return next((text for beginning, text in _EXPLANATIONS.items() if name.startswith(beginning)), None)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
