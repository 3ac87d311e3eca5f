"""Builds the page of a comparison: what may mislead, verdicts, tables, examples; renders it for the terminal. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.comparison.comparing import ComparisonReport, PairReport, SliceReport
from evaluator.comparison.differences_chart import short_label
from evaluator.comparison.examples import QueryExample
from evaluator.metrics.verdict import PairedComparison
from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.page_blocks import Block, Heading, Prose, Sentence, Table, Verdict


def render_comparison(report: ComparisonReport) -> str:
    """Renders the report as Markdown."""
    title = f"{report.metric} on {report.dataset}, split {report.split} (seed {report.seed})"
    blocks = [Sentence(title), *comparison_blocks(report), *example_blocks(report)]
    return "\n\n".join(markdown_parts(blocks)) + "\n"


def comparison_blocks(report: ComparisonReport) -> list[Block]:
    """Returns judgments, notes, verdicts and tables; the examples are left to `example_blocks`."""
    return [
        Sentence(report.judgments.of_dataset),
        *(Sentence(f"Note: {note}{'' if note.endswith('?') else '.'}") for note in report.notes),
        *(Verdict(pair.verdict.sentence) for pair in report.pairs),
        *(Verdict(pair.gate.sentence) for pair in report.pairs if pair.gate),
        Prose("Needed: queries that would show the difference. Overlap@10: share of the first 10 hits in both lists."),
        Table("pairs", "Each pair", [_PAIR_HEADER, *(_pair_row(pair) for pair in report.pairs)]),
        Prose("Means and differences with 95 % intervals. Only the metric above has a test and a verdict."),
        Table(
            "metrics",
            "Each metric of each pair",
            [_METRIC_HEADER, *(row for pair in report.pairs for row in _metric_rows(pair))],
        ),
        *(block for field in dict.fromkeys(part.field for part in report.slices) for block in _slices(report, field)),
    ]


def example_blocks(report: ComparisonReport) -> Iterator[Block]:
    """Yields the gains and the losses of each pair that has some: each query with its documents."""
    number = 0
    for pair in report.pairs:
        compared = pair.verdict
        for what, examples in (("gains", pair.gains), ("losses", pair.losses)):
            if examples:
                yield Heading(f"Biggest {what} of {compared.second} ({_name(compared)})")
            for example in examples:
                number += 1
                yield from example_parts(compared.first, compared.second, example, number)


def example_parts(first: str, second: str, example: QueryExample, number: int) -> Iterator[Block]:
    """Yields a query with the values of both systems, and its documents with their ranks in both.

    `number`: the example's place on its page.
    """
    yield Sentence(f"{example.query}: {example.text} ({example.first:.4f} → {example.second:.4f})")
    rows = [
        [document.id, document.title, *map(_count, (document.grade, document.first_rank, document.second_rank))]
        for document in example.documents
    ]
    header = ["document", "title", "grade", f"rank: {first}", f"rank: {second}"]
    yield Table(f"example-{number}", f"Documents of query {example.query}", [header, *rows])


def _slices(report: ComparisonReport, field: str) -> list[Block]:
    rows = _slice_rows([part for part in report.slices if part.field == field])
    what = f"By `{field}` of the queries, with 95 % intervals but no test."
    return [Sentence(what), Table(f"slices-{field}", f"By {field} of the queries", [_SLICE_HEADER, *rows])]


_PAIR_HEADER = ("pair", "queries", "better", "tied", "worse", "p", "needed", "overlap@10")
_METRIC_HEADER = ("pair", "metric", "first", "second", "difference", "95 % interval", "queries")
_SLICE_HEADER = ("slice", "pair", "queries", "first", "second", "difference", "95 % interval")


def _name(compared: PairedComparison) -> str:
    return f"{short_label(compared.first)} → {short_label(compared.second)}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "–" if interval is None else f"{interval[0]:+z.4f} to {interval[1]:+z.4f}"


def _pair_row(pair: PairReport) -> list[str]:
    compared = pair.verdict
    return [
        _name(compared),
        *(str(count) for count in (compared.queries, compared.wins, compared.ties, compared.losses)),
        f"{compared.p:.4f}",
        _count(compared.queries_needed),
        f"{pair.overlap_at_10:.2f}",
    ]


def _metric_rows(pair: PairReport) -> list[list[str]]:
    return [
        [
            _name(pair.verdict),
            name,
            f"{differing.first_mean:.4f}",
            f"{differing.second_mean:.4f}",
            f"{differing.difference:+z.4f}",
            _interval(pair.verdict.interval if name == pair.verdict.metric else differing.interval),
            str(differing.queries),
        ]
        for name, differing in pair.metrics.items()
    ]


def _slice_rows(slices: Sequence[SliceReport]) -> list[list[str]]:
    return [
        [
            part.value,
            f"{compared.first} → {compared.second}",
            str(compared.queries),
            f"{compared.first_mean:.4f}",
            f"{compared.second_mean:.4f}",
            f"{compared.difference:+z.4f}",
            _interval(compared.interval),
        ]
        for part in slices
        for compared in part.differences
    ]


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)
