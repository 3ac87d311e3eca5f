"""Renders a comparison for the terminal, as Markdown: what may mislead, verdicts, tables, examples. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.comparison.comparing import ComparisonReport, PairReport, SliceReport
from evaluator.comparison.examples import QueryExample
from evaluator.comparison.verdict import PairedComparison
from evaluator.markdown_table import aligned


def render_comparison(report: ComparisonReport) -> str:
    """Renders the report."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: ComparisonReport) -> Iterator[str]:
    yield f"{report.metric} on {report.dataset}, split {report.split} (seed {report.seed})"
    yield from (f"Note: {note}{'' if note.endswith('?') else '.'}" for note in report.notes)
    yield from (pair.verdict.sentence for pair in report.pairs)
    yield from (pair.gate.sentence for pair in report.pairs if pair.gate)
    yield from (_latency(pair) for pair in report.pairs if pair.latency)
    yield "Per pair: queries won, tied and lost; Cohen's d; how alike the lists are."
    yield aligned([_PAIR_HEADER, *(_pair_row(pair) for pair in report.pairs)])
    yield "Means and differences, with 95 % intervals (a test and a verdict only for the metric above)."
    yield aligned([_METRIC_HEADER, *(row for pair in report.pairs for row in _metric_rows(pair))])
    for field in dict.fromkeys(one.field for one in report.slices):
        yield f"By `{field}` of the queries (Holm over all rows)."
        yield aligned([_SLICE_HEADER, *_slice_rows([one for one in report.slices if one.field == field])])
    for pair in report.pairs:
        yield from _examples(f"Biggest gains of {pair.verdict.second}", pair, pair.gains)
        yield from _examples(f"Biggest losses of {pair.verdict.second}", pair, pair.losses)


_PAIR_HEADER = ("pair", "queries", "won", "tied", "lost", "d", "p", "overlap@10", "RBO")
_METRIC_HEADER = ("pair", "metric", "first", "second", "difference", "95 % interval", "queries")
_SLICE_HEADER = ("slice", "pair", "queries", "first", "second", "difference", "95 % interval", "p (Holm)", "outcome")


def _name(compared: PairedComparison) -> str:
    return f"{compared.first} → {compared.second}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:+z.4f} to {interval[1]:+z.4f}"


def _pair_row(pair: PairReport) -> list[str]:
    compared = pair.verdict
    return [
        _name(compared),
        *(str(count) for count in (compared.queries, compared.wins, compared.ties, compared.losses)),
        "–" if compared.effect_size is None else f"{compared.effect_size:.2f}",
        f"{compared.p:.4f}",
        f"{pair.overlap_at_10:.2f}",
        f"{pair.rank_biased_overlap:.2f}",
    ]


def _metric_rows(pair: PairReport) -> list[list[str]]:
    return [
        [
            _name(pair.verdict),
            name,
            f"{found.first_mean:.4f}",
            f"{found.second_mean:.4f}",
            f"{found.difference:+z.4f}",
            _interval(found.interval),
            str(found.queries),
        ]
        for name, found in pair.metrics.items()
    ]


def _slice_rows(slices: Sequence[SliceReport]) -> list[list[str]]:
    return [
        [
            one.value,
            _name(compared),
            str(compared.queries),
            f"{compared.first_mean:.4f}",
            f"{compared.second_mean:.4f}",
            f"{compared.difference:+z.4f}",
            _interval(compared.interval),
            f"{compared.p_holm:.4f}",
            compared.outcome,
        ]
        for one in slices
        for compared in one.comparisons
    ]


def _latency(pair: PairReport) -> str:
    found = pair.latency
    if found is None:
        return ""
    low, high = found.interval
    return (
        f"{found.second} takes {found.ratio:.2f} times as long as {found.first} "
        f"(95 % interval {low:.2f} to {high:.2f}; {found.pairs} pairs in blocks of {found.block})."
    )


def _examples(title: str, pair: PairReport, examples: Sequence[QueryExample]) -> Iterator[str]:
    if not examples:
        return
    first, second = pair.verdict.first, pair.verdict.second
    yield f"{title} ({first} → {second})"
    for example in examples:
        yield f"{example.query}: {example.text} ({example.first:.4f} → {example.second:.4f})"
        yield aligned(
            [
                ("document", "title", "grade", f"rank: {first}", f"rank: {second}"),
                *(
                    (one.id, one.title.replace("|", "/"), *map(_count, (one.grade, one.first_rank, one.second_rank)))
                    for one in example.documents
                ),
            ]
        )


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)
