"""Builds the section on judgments that were merged over those of the dataset, and on what that changed. Pure."""

from evaluator.pages.page_blocks import Block, Heading, Prose, Table
from evaluator.steps.quality_report import CHANGE_METRICS, JudgmentChange


def judgment_blocks(change: JudgmentChange | None) -> list[Block]:
    """Returns the section; nothing where the figures are of the dataset's judgments alone."""
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
        Heading("Added judgments"),
        Prose(
            "All figures of quality are by the dataset's judgments with those of these files merged over them. Before: "
            "by the dataset's alone."
        ),
        Table("added-judgments", "Files of added judgments", files),
        Table("before-and-after", "Figures before and after the judgments were added", figures),
    ]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
