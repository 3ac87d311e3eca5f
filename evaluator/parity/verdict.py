"""Says a parity report in sentences and a table. Pure; decides nothing."""

from collections.abc import Mapping

from evaluator.pages.markdown_table import aligned
from evaluator.parity.comparison import ParityReport, TriedChange
from evaluator.parity.figure_settings import LABELS, Change, FigureSettings
from evaluator.parity.published import decimals

_ORDINALS = {3: "3rd", 4: "4th", 5: "5th", 6: "6th"}


def render_parity(report: ParityReport) -> str:
    """Renders figures, the changes that were tried, and the verdict."""
    published = report.published.figures
    served = printed_figures(report.figures, published)
    lines = [
        f"{report.preset} on {report.dataset} ({report.split}): {report.queries} queries, "
        f"{report.generation} on {report.engine}",
        f"served:    {', '.join(map(' '.join, zip(published, served, strict=True)))}",
        f"published: {', '.join(map(' '.join, published.items()))} ({report.published.source})",
    ]
    if report.tried:
        lines += ["", _table(report)]
    return "\n".join([*lines, "", verdict(report)])


def verdict(report: ParityReport) -> str:
    """Returns the verdict: equal, off and explained by which settings, or off and unexplained."""
    places = min(map(decimals, report.published.figures.values()))
    ordinal = _ORDINALS[places]
    if report.equal:
        return f"Equal to the {ordinal} decimal."
    sentences = [f"Off by {gaps(report.figures, report.published.figures)}."]
    match report.explained_by:
        case ():
            sentences.append(_unexplained(report))
        case (one,):
            together = ", together" if len(one) > 1 else ""
            sentences.append(f"Explained by {_words(one, report.served)}{together}.")
        case several:
            listed = "; ".join(_words(one, report.served) for one in several)
            sentences.append(f"Explained by {len(several)} changes, each without the others: {listed}.")
    if report.undecided_ties:
        sentences.append(
            f"{report.undecided_ties} queries have more equal scores than an answer holds: their order by descending "
            "id is not known."
        )
    if not report.engine.startswith("elasticsearch"):
        sentences.append(
            f"The engine is {report.engine}; the published figures are Lucene's, whose document lengths are rounded."
        )
    return " ".join(sentences)


def _unexplained(report: ParityReport) -> str:
    nearest = min(report.tried, key=lambda one: _distance(one.figures, report))
    verdict = f"Explained by none of the {len(report.tried)} changes tried"
    if _distance(nearest.figures, report) >= _distance(report.figures, report):
        return f"{verdict}, and none makes the gap smaller."
    off = gaps(nearest.figures, report.published.figures)
    return f"{verdict}; nearest is {_words(nearest.change, report.served)}, off by {off}."


def _words(change: Change, served: FigureSettings) -> str:
    *first, last = (f"{LABELS[name]} ({value} instead of {getattr(served, name)})" for name, value in change.items())
    return f"{', '.join(first)} and {last}" if first else last


def _distance(found: Mapping[str, float], report: ParityReport) -> float:
    return sum(abs(found[metric] - float(printed)) for metric, printed in report.published.figures.items())


def gaps(found: Mapping[str, float], published: Mapping[str, str]) -> str:
    """Returns the differences of the figures found from the printed ones: `-0.0167 nDCG@10`."""
    return ", ".join(
        f"{found[metric] - float(printed):+.{_places(printed)}f} {metric}" for metric, printed in published.items()
    )


def printed_figures(found: Mapping[str, float], published: Mapping[str, str]) -> list[str]:
    """Returns the figures found with the decimals of the printed ones, at least four."""
    return [f"{found[metric]:.{_places(printed)}f}" for metric, printed in published.items()]


def _places(printed: str) -> int:
    return max(4, decimals(printed))


def _table(report: ParityReport) -> str:
    """Renders single settings, and the combinations that explain the gap; parity.json has the others."""
    shown = [one for one in report.tried if len(one.change) == 1 or one.change in report.explained_by]
    head = ["setting", "served", "tried", *report.published.figures, "as published"]
    return aligned([head, *(_row(one, report) for one in shown)])


def _row(one: TriedChange, report: ParityReport) -> list[str]:
    settings, served, tried = (
        ", ".join(map(str, parts))
        for parts in (
            (LABELS[name] for name in one.change),
            (getattr(report.served, name) for name in one.change),
            one.change.values(),
        )
    )
    return [
        settings,
        served,
        tried,
        *printed_figures(one.figures, report.published.figures),
        "yes" if one.explains else "",
    ]
