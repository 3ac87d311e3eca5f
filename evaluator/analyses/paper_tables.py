"""Builds the tables of an analysis, numbered as in the BEIR paper. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.analyses.analysis_report import Analysis, RankingFigures
from evaluator.analyses.averages import Pick, SetRow, common_rows, differences_of, mean_of, ndcg_at_10
from evaluator.analyses.figure_table import Cell, FigureTable
from evaluator.analyses.measured_rankings import DEEP
from evaluator.analyses.systems_tables import side_by_side_table, stand_ins_table
from evaluator.machine.process_costs import MIB

TEXT, COUNT, SHARE, SIGNED = "", "d", ".4f", "+z.4f"


def paper_tables(analysis: Analysis, rows: Sequence[SetRow]) -> tuple[FigureTable, ...]:
    """Returns all tables that the analysis has figures for, in the order of the paper."""
    return (
        statistics_table(analysis),
        over_sets(analysis, rows, "table-2-ndcg", "Table 2", "nDCG@10", ndcg_at_10),
        summary_table(analysis),
        stand_ins_table(analysis),
        side_by_side_table(analysis),
        *pairs_tables(analysis),
        *fusions_tables(analysis),
        *served_tables(analysis),
        *published_tables(analysis, rows),
        holes_table(analysis),
        over_sets(
            analysis,
            rows,
            "table-9-capped-recall",
            "Table 9",
            f"capped Recall@{DEEP} (R_cap@{DEEP})",
            lambda figures: figures.capped_recall_at_100,
        ),
        *overlap_tables(analysis),
        *difference_tables(analysis, rows),
        lengths_table(analysis),
    )


def statistics_table(analysis: Analysis) -> FigureTable:
    """Table 1: the statistics of each set as it lies on the disk."""
    return FigureTable(
        name="table-1-statistics",
        place="Table 1",
        title="statistics of each set",
        header=("set", "split", "documents", "queries", "judged per query", "relevant per query", "words per query",
                "words per document"),
        formats=(TEXT, TEXT, COUNT, COUNT, ".1f", ".1f", ".2f", ".2f"),
        rows=tuple(
            (analysed.name, analysed.split, statistics.documents, statistics.queries, statistics.judged_a_query,
             statistics.relevant_a_query, statistics.query_words, statistics.document_words)
            for analysed in analysis.sets
            for statistics in (analysed.statistics,)
        ),
    )  # fmt: skip


def over_sets(analysis: Analysis, rows: Sequence[SetRow], name: str, place: str, title: str, pick: Pick) -> FigureTable:
    """Returns a table of sets × pipelines whose last row is the mean over the sets that every pipeline has."""
    pipelines = analysis.pipelines
    cells: list[tuple[Cell, ...]] = [
        (row.label, *(row.figure(pipeline, pick) for pipeline in pipelines)) for row in rows
    ]
    counted = [row for row in rows if row.counted]
    common = common_rows(rows, pipelines, pick)
    missing = list(_why_missing(analysis, rows, pick))
    if len(counted) > 1 and common:
        of = f"{len(common)} sets" if len(common) == len(counted) else f"{len(common)} of {len(counted)} sets"
        cells.append((f"mean of {of}", *(mean_of(common, pipeline, pick) for pipeline in pipelines)))
    elif len(counted) > 1:
        missing.append("No mean: there is no set on which every pipeline has this figure.")
    if common and len(common) < len(counted):
        missing.append(f"The mean is over {', '.join(row.name for row in common)}: there every pipeline has a figure.")
    return FigureTable(
        name=name,
        place=place,
        title=title,
        header=("set", *pipelines),
        formats=(TEXT, *(SHARE for _ in pipelines)),
        rows=tuple(cells),
        why_missing=tuple(missing),
    )


def summary_table(analysis: Analysis) -> FigureTable:
    """Table 2, last rows: means over sets and performance against the baseline, with the number of sets of each."""
    base = analysis.baseline
    return FigureTable(
        name="table-2-against-baseline",
        place="Table 2, last rows",
        title=f"nDCG@10 over sets, and against {base}",
        header=("pipeline", "mean of its sets", "its sets", "mean of common sets", "common sets", f"against {base} %",
                "mean of the sets' %", "sets of both", "better on", "worse on", "equal on"),
        formats=(TEXT, SHARE, COUNT, SHARE, COUNT, "+z.1f", "+z.1f", COUNT, COUNT, COUNT, COUNT),
        rows=tuple(
            (summary.pipeline, summary.mean, len(summary.mean_of), summary.common_mean, len(analysis.common_sets),
             summary.percent_of_means, summary.mean_percent,
             *((None,) * 4 if summary.pipeline == base
               else (len(summary.percent_of), len(summary.better), len(summary.worse), len(summary.equal))))
            for summary in analysis.summaries
        ),
    )  # fmt: skip


def pairs_tables(analysis: Analysis) -> Iterator[FigureTable]:
    """Yields every pair of pipelines with its test, the least p first, where a set has several."""
    rows = [
        (analysed.name, pair.better, pair.worse, pair.difference, pair.p, pair.queries)
        for analysed in analysis.sets
        for pair in sorted(analysed.pairs, key=lambda pair: pair.p)
    ]
    if rows:
        yield FigureTable(
            name="significance",
            title="pairs of pipelines, nDCG@10",
            header=("set", "better", "worse", "difference", "p", "queries"),
            formats=(TEXT, TEXT, TEXT, SHARE, SHARE, COUNT),
            rows=tuple(rows),
        )


def fusions_tables(analysis: Analysis) -> Iterator[FigureTable]:
    """Yields the best fusions, and what they gain over the best pipeline alone."""
    rows: list[tuple[Cell, ...]] = []
    for analysed in analysis.sets:
        best = max(
            (figures.ndcg_at_10 for figures in analysed.pipelines.values() if figures.ndcg_at_10 is not None),
            default=None,
        )
        for fused in analysed.fusions:
            gain = None if best is None else fused.ndcg_at_10 - best
            rows.append(
                (analysed.name, " + ".join(fused.pipelines), fused.tried, fused.ndcg_at_10, gain, fused.held_out)
            )
    if rows:
        yield FigureTable(
            name="fusions",
            title="the best fusions of two and of three pipelines",
            header=("set", "fused", "of so many", "nDCG@10", "to the best pipeline", "held out"),
            formats=(TEXT, TEXT, COUNT, SHARE, SIGNED, SHARE),
            rows=tuple(rows),
        )


def served_tables(analysis: Analysis) -> Iterator[FigureTable]:
    """Yields table 3: what a query takes and costs, the index; and what each process took. Nothing of imported runs."""
    rows: list[tuple[Cell, ...]] = []
    missing: list[str] = []
    for analysed in analysis.sets:
        for name, figures in analysed.pipelines.items():
            served, documents = figures.served, analysed.statistics.documents
            if served is None:
                missing.append(
                    f"{analysed.name}: {name} was imported, or its run {figures.run} has no report of its files as "
                    "they are."
                )
                continue
            size = None if served.index_bytes is None or not documents else served.index_bytes / documents
            rows.append((analysed.name, name, *served.time_cells, served.cpu_ms, size))
            if not served.times_hold:
                missing.append(f"{analysed.name}: times marked ? do not hold; the report of {figures.run} has why.")
            if served.cpu_ms is None:
                missing.append(
                    f"{analysed.name}: the CPU time of {name} was not measured; name processes by `--processes`."
                )
    if rows:
        yield FigureTable(
            name="table-3-served",
            place="Table 3",
            title="milliseconds and CPU of a query, and bytes of the index per document",
            header=("set", "pipeline", "p50 ms", "p95 ms", "CPU ms per query", "index bytes per document"),
            formats=(TEXT, TEXT, ".1f", ".1f", ".1f", ".0f"),
            rows=tuple(rows),
            why_missing=tuple(dict.fromkeys(missing)),
        )
    processes: list[tuple[Cell, ...]] = [
        (analysed.name, process.run, process.process, process.cpu_ms_a_document, _mib(process.memory_bytes))
        for analysed in analysis.sets
        for process in analysed.processes
    ]
    if processes:
        yield FigureTable(
            name="table-3-processes",
            title="CPU of a document and memory, by process",
            header=("set", "run", "process", "CPU ms per document", "memory MiB"),
            formats=(TEXT, TEXT, TEXT, ".1f", ".0f"),
            rows=tuple(processes),
        )


def _mib(size: int | None) -> float | None:
    return None if size is None else size / MIB


def published_tables(analysis: Analysis, rows: Sequence[SetRow]) -> Iterator[FigureTable]:
    """Yields, for nDCG@10 and Recall@100, our figures beside published ones, of sets that are as published."""
    metrics: tuple[tuple[str, str, Pick], ...] = (
        ("nDCG@10", "published-ndcg", ndcg_at_10),
        ("Recall@100", "published-recall", lambda figures: figures.recall_at_100),
    )
    for metric, name, pick in metrics:
        having = [
            row for row in rows if any(metric in figures for figures in analysis.published.get(row.name, {}).values())
        ]
        systems = [
            system
            for system in analysis.systems
            if any(metric in analysis.published[row.name].get(system, {}) for row in having)
        ]
        if having:
            yield FigureTable(
                name=name,
                title=f"{metric} beside published figures",
                header=("set", *analysis.pipelines, *(analysis.systems[system].title for system in systems)),
                formats=(TEXT, *(SHARE for _ in (*analysis.pipelines, *systems))),
                rows=tuple(
                    (
                        row.label,
                        *(row.figure(pipeline, pick) for pipeline in analysis.pipelines),
                        *(analysis.published[row.name].get(system, {}).get(metric) for system in systems),
                    )
                    for row in having
                ),
                why_missing=tuple(_why_missing(analysis, having, pick)),
            )


def holes_table(analysis: Analysis) -> FigureTable:
    """Table 4: share of the first ten without a judgment, and nDCG@10 before and after judgments were added."""
    judged = any(analysed.added_judgments for analysed in analysis.sets)
    after = ("hole@10 after", "nDCG@10 after", "change") if judged else ()
    return FigureTable(
        name="table-4-holes",
        place="Table 4",
        title="documents without a judgment among the first ten (hole@10), and nDCG@10",
        header=("set", "pipeline", "hole@10", "nDCG@10", *after),
        formats=(TEXT, TEXT, SHARE, SHARE, *((SHARE, SHARE, SIGNED) if judged else ())),
        rows=tuple(
            (analysed.name, name, figures.hole_at_10, figures.ndcg_at_10, *(_after(figures) if judged else ()))
            for analysed in analysis.sets
            for name, figures in analysed.pipelines.items()
        ),
        why_missing=tuple(
            f"{analysed.name}: no judgments were added."
            for analysed in analysis.sets
            if judged and not analysed.added_judgments
        ),
    )


def overlap_tables(analysis: Analysis) -> Iterator[FigureTable]:
    """Yields figure 2 in numbers, where there are at least two sets."""
    shares = {(pair.first, pair.second): pair.weighted_jaccard for pair in analysis.overlaps}
    names = [analysed.name for analysed in analysis.sets]
    if shares:
        yield FigureTable(
            name="figure-2-overlap",
            place="Figure 2",
            title="overlap of vocabularies",
            header=("set", *names),
            formats=(TEXT, *(SHARE for _ in names)),
            rows=tuple(
                (name, *(shares.get((name, other), shares.get((other, name))) for other in names)) for name in names
            ),
        )


def difference_tables(analysis: Analysis, rows: Sequence[SetRow]) -> Iterator[FigureTable]:
    """Yields figure 3 in numbers, where a set has the baseline and another pipeline."""
    differences = differences_of(rows, analysis.pipelines, analysis.baseline)
    others = [name for name in analysis.pipelines if any(name in group for group in differences.values())]
    if differences:
        yield FigureTable(
            name="figure-3-differences",
            place="Figure 3",
            title=f"nDCG@10 less that of {analysis.baseline}",
            header=("set", *others),
            formats=(TEXT, *(SIGNED for _ in others)),
            rows=tuple((label, *(group.get(name) for name in others)) for label, group in differences.items()),
        )


def lengths_table(analysis: Analysis) -> FigureTable:
    """Figures 4 and 5 in numbers: lengths of the first ten documents and of those judged relevant."""
    rows = [
        (analysed.name, name, lengths.mean, *(lengths.quartiles or (None,) * 3), lengths.documents, lengths.absent)
        for analysed in analysis.sets
        for name, lengths in (("judged relevant", analysed.relevant_lengths), *analysed.lengths.items())
    ]
    return FigureTable(
        name="figures-4-5-lengths",
        place="Figures 4 and 5",
        title="lengths of documents in words",
        header=("set", "documents of", "mean", "first quartile", "median", "third quartile", "documents", "absent"),
        formats=(TEXT, TEXT, ".1f", COUNT, COUNT, COUNT, COUNT, COUNT),
        rows=tuple(rows),
    )


def _after(figures: RankingFigures) -> tuple[Cell, ...]:
    again = figures.after
    if again is None:
        return (None, None, None)
    before, after = figures.ndcg_at_10, again.ndcg_at_10
    change = None if before is None or after is None else after - before
    return (again.hole_at_10, after, change)


def _why_missing(analysis: Analysis, rows: Sequence[SetRow], pick: Pick) -> Iterator[str]:
    """Yields why cells of these rows have no figure."""
    for set_name in dict.fromkeys(member.name for row in rows for member in row.members):
        analysed = next(member for member in analysis.sets if member.name == set_name)
        for pipeline in analysis.pipelines:
            figures = analysed.pipelines.get(pipeline)
            if figures is None:
                yield f"{set_name}: {pipeline} was not measured."
            elif pick(figures) is None:
                depth = figures.depth
                yield f"{set_name}: the rankings of {pipeline} are {depth} documents deep, too few for this metric."
