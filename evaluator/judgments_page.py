"""Renders which judgments were merged over those of the dataset, and what that changed. Pure; Markdown."""

from evaluator.markdown_table import aligned
from evaluator.quality_report import CHANGE_METRICS, JudgmentChange


def judgment_parts(change: JudgmentChange | None) -> list[str]:
    """Renders the section; nothing where the figures are of the dataset's judgments alone."""
    if change is None:
        return []
    files = [["file", "sha256", "added", "changed", "unchanged", "of other queries"]]
    files += [
        [one.file, one.sha256[:12], *map(str, (one.added, one.changed, one.unchanged, one.other_queries))]
        for one in change.files
    ]
    figures = [["pipeline", *(f"{metric} {when}" for metric in CHANGE_METRICS for when in ("before", "after"))]]
    figures += [
        [name, *(_figure(side[name][metric]) for metric in CHANGE_METRICS for side in (change.before, change.after))]
        for name in change.after
    ]
    return [
        "## Added judgments",
        "All figures of quality are by the dataset's judgments with those of these files merged over them. Before: by "
        "the dataset's alone.",
        aligned(files),
        aligned(figures),
    ]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
