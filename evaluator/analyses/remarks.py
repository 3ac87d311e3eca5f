"""Says what a reader of an analysis must know beside its figures: what is missing, lost or not as published. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from evaluator.analyses.analysis_report import SetAnalysis
from evaluator.analyses.averages import IN_DOMAIN, SetRow, ndcg_at_10
from evaluator.datasets.catalogue import Catalogue


def analysis_notes(
    sets: Sequence[SetAnalysis],
    rows: Sequence[SetRow],
    baseline: str,
    pipelines: Sequence[str],
    changed: Sequence[str],
    unlike: Mapping[str, str],
    with_added: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yields the remarks. `changed`: pipelines that differ between sets; `unlike`: why a set is not as published.

    `with_added`: set and run of those whose own figures are by added judgments too.
    """
    for one in sets:
        yield from (f"{one.name}: {warning}." for warning in one.warnings)
        if one.queries < one.statistics.queries:
            yield f"{one.name}: a sample of {one.queries} of {one.statistics.queries} judged queries was measured."
        for name, figures in one.pipelines.items():
            if figures.lost:
                yield f"{one.name}, {name}: {figures.lost} queries were LOST; they count as 0."
            if figures.degraded:
                yield f"{one.name}, {name}: {figures.degraded} answers were DEGRADED: not this pipeline's figures."
            yield from (f"{one.name}, {fault}." for fault in figures.faults)
        if missing := [name for name in pipelines if name not in one.pipelines]:
            yield f"{one.name}: not measured: {', '.join(missing)}."
        yield from (f"{one.name}: {file.sentence}." for file in one.added_judgments)
        if one.name in IN_DOMAIN:
            yield f"{one.name} is in no mean and no comparison: models are trained on it."
    for name in changed:
        yield f"{name}: the pipeline of that name is not the same on all sets (other stages, preset or settings)."
    for row in rows:
        if row.counted and row.figure(baseline, ndcg_at_10) == 0:
            yield f"{row.name}: {baseline} has an nDCG@10 of 0, so no pipeline has a percentage of it there."
    for name, run in with_added:
        yield f"{name}: the report of {run} is by added judgments too; the figures here are by the set's own."
    for name, reason in unlike.items():
        yield f"{name}: no published figures beside ours: {reason}."


def not_as_published(one: SetAnalysis, catalogue: Catalogue) -> str | None:
    """Returns why the published figures of a set's name are not of these files and queries; None: they may be."""
    known = catalogue.sets.get(one.name)
    if known is None:
        return "not in the catalogue"
    found, published = one.statistics, known.statistics
    if one.split != known.split:
        return f"they are of the split {known.split}, these of {one.split}"
    if (found.documents, found.queries) != (published.documents, published.queries):
        return (
            f"the set has {published.documents} documents and {published.queries} queries, "
            f"this one {found.documents} and {found.queries}"
        )
    if one.queries < found.queries:
        return f"{one.queries} of {found.queries} queries were measured"
    return None
