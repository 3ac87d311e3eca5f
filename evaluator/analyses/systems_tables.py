"""Builds the tables of the paper's ten systems: what stands in for each, and their figures side by side. Pure."""

from collections.abc import Iterator

from evaluator.analyses.analysis_report import Analysis, PipelinePair, RankingFigures, SetAnalysis
from evaluator.analyses.figure_table import Cell, FigureTable
from evaluator.analyses.paper_systems import PaperSystem, paper_systems
from evaluator.metrics.paired_differences import ALPHA

TEXT, SHARE = "", ".4f"
STAND_INS, SIDE_BY_SIDE = "systems", "systems-side-by-side"


def stand_ins_table(analysis: Analysis) -> FigureTable:
    """Lists the ten systems: the paper's checkpoint, what stands in for it in these runs, and how that differs."""
    return FigureTable(
        name=STAND_INS,
        title="the ten systems of the paper, and what stands in for each",
        header=("system", "original checkpoint", "stand-in here", "what differs"),
        formats=(TEXT, TEXT, TEXT, TEXT),
        rows=tuple(
            (
                system.system,
                system.original,
                ", ".join(labels) or None,
                system.differs if labels else f"needs {system.needs}",
            )
            for system in paper_systems()
            for labels in (_labels(analysis, system),)
        ),
    )


def side_by_side_table(analysis: Analysis) -> FigureTable:
    """Sets the systems side by side, ten rows a set, with the paper's figures of the originals."""
    base = analysis.baseline
    missing = [
        f"{analysed.name}: {system.system} was not measured; it needs {system.needs}."
        for analysed in analysis.sets
        for system in paper_systems()
        if stand_in(analysed, system) is None
    ]
    return FigureTable(
        name=SIDE_BY_SIDE,
        title="the ten systems side by side",
        header=("set", "system", "stand-in here", "nDCG@10", f"against {base} %", f"p against {base}", "p50 ms",
                "p95 ms", "CPU ms per query", f"CPU ms per point over {base}",
                "nDCG@10 of the original (other weights)"),
        formats=(TEXT, TEXT, TEXT, SHARE, "+z.1f", SHARE, ".1f", ".1f", ".1f", ".1f", TEXT),
        rows=tuple(
            (analysed.name, system.system, *_cells(analysed, stand_in(analysed, system), base),
             _published(analysis, analysed, system))
            for analysed in analysis.sets
            for system in paper_systems()
        ),
        why_missing=tuple(missing),
    )  # fmt: skip


def systems_summary(analysis: Analysis) -> Iterator[str]:
    """Yields what a terminal shows: the systems side by side where there is one set, what is missing, the verdicts."""
    if len(analysis.sets) == 1:
        table = side_by_side_table(analysis)
        yield table.markdown()
        if table.why_missing:
            yield "\n".join(table.why_missing)
    yield from verdicts(analysis)


def stand_in(analysed: SetAnalysis, system: PaperSystem) -> str | None:
    """Returns the pipeline that stands in for a system on a set; None: none of them was measured."""
    return next((name for name in system.pipelines if name in analysed.pipelines), None)


def cost_of_a_point(figures: RankingFigures, base: RankingFigures | None) -> float | None:
    """Returns CPU milliseconds per query and point (0.01) of nDCG@10 over the baseline; None where none was gained."""
    cpu_ms = None if figures.served is None else figures.served.cpu_ms
    if cpu_ms is None or base is None or figures.ndcg_at_10 is None or base.ndcg_at_10 is None:
        return None
    points = 100 * (figures.ndcg_at_10 - base.ndcg_at_10)
    return cpu_ms / points if points > 0 else None


def verdicts(analysis: Analysis) -> Iterator[str]:
    """Yields a paragraph per set: the best pipeline, those that differ from the baseline, the best fusions and cost."""
    for analysed in analysis.sets:
        known = {
            name: figures.ndcg_at_10 for name, figures in analysed.pipelines.items() if figures.ndcg_at_10 is not None
        }
        if len(known) > 1:
            yield f"{analysed.name}: {' '.join(_sentences(analysed, known, analysis.baseline))}"


def _sentences(analysed: SetAnalysis, known: dict[str, float], base: str) -> Iterator[str]:
    first = max(known, key=lambda name: known[name])
    lost = sum(figures.lost for figures in analysed.pipelines.values())
    degraded = sum(figures.degraded for figures in analysed.pipelines.values())
    yield f"{lost or 'No'} answers were lost, {degraded or 'none'} degraded."
    yield f"{first} is best with an nDCG@10 of {known[first]:.4f}."
    significant = [pair for pair in analysed.pairs if pair.p < ALPHA]
    family = f"Of {len(analysed.pairs)} pairs {len(significant)} differ significantly"
    if base in known:
        better = [pair.better for pair in significant if pair.worse == base]
        worse = [pair.worse for pair in significant if pair.better == base]
        yield f"{family}; better than {base}: {_list(better)}; worse: {_list(worse)}."
    else:
        yield f"{family}."
    for fused in analysed.fusions:
        held = "" if fused.held_out is None else f", {fused.held_out:.4f} on queries that did not choose it"
        yield (
            f"The best fusion of {len(fused.pipelines)} is {' + '.join(fused.pipelines)}: {fused.ndcg_at_10:.4f} "
            f"({fused.ndcg_at_10 - known[first]:+z.4f} to the best pipeline{held})."
        )
    costs = {
        name: cost
        for name in known
        if (cost := cost_of_a_point(analysed.pipelines[name], analysed.pipelines.get(base)))
    }
    if costs:
        cheapest = min(costs, key=lambda name: costs[name])
        yield f"A point over {base} is cheapest by {cheapest}: {costs[cheapest]:.1f} ms of CPU per query."


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _labels(analysis: Analysis, system: PaperSystem) -> list[str]:
    labels = (
        analysed.pipelines[name].label(name)
        for analysed in analysis.sets
        if (name := stand_in(analysed, system)) is not None
    )
    return list(dict.fromkeys(labels))


def _cells(analysed: SetAnalysis, name: str | None, base: str) -> tuple[Cell, ...]:
    if name is None:
        return (None,) * 8
    figures, first = analysed.pipelines[name], analysed.pipelines.get(base)
    served, figure = figures.served, figures.ndcg_at_10
    against = None
    if name != base and figure is not None and first is not None and first.ndcg_at_10:
        against = 100 * (figure - first.ndcg_at_10) / first.ndcg_at_10
    times = (None, None, None) if served is None else (*served.time_cells, served.cpu_ms)
    cost = None if name == base else cost_of_a_point(figures, first)
    return (figures.label(name), figure, against, _p(analysed.pairs, name, base), *times, cost)


def _p(pairs: tuple[PipelinePair, ...], name: str, base: str) -> float | None:
    return next((pair.p for pair in pairs if {pair.better, pair.worse} == {name, base}), None)


def _published(analysis: Analysis, analysed: SetAnalysis, system: PaperSystem) -> str | None:
    return analysis.published.get(analysed.name, {}).get(system.published, {}).get("nDCG@10")
