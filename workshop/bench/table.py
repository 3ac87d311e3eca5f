"""Renders the report as text that reads as Markdown and on a terminal alike. Computes nothing."""

from collections.abc import Sequence

from workshop.bench.report import BenchReport, Interval, MemoryFigures


def render_table(report: BenchReport) -> str:
    """Renders every section of the report, with its spread."""
    made, model = report.made, report.model
    rounds = len({turn.round for turn in report.turns})
    parts = [f"{made.machine.in_words}; {rounds} rounds; median [bootstrap 95 % interval of the median over rounds]"]
    if model is not None:
        parts.append(f"{model.name} as plain fp32 ({model.sha256[:12]}), at most {model.max_tokens} tokens a pair")
    sets = [
        [
            name,
            f"{about.lists} x {about.pairs}",
            f"mean {about.mean_tokens:.0f}, p95 {about.p95_tokens:.0f}, most {about.most_tokens}",
            f"{about.padding:.2f}",
        ]
        for name, about in report.sets.items()
    ]
    parts.append(aligned([["set", "lists x pairs", "tokens", "padding of 32 as they come"], *sets]))
    rows = [
        [peer, name, _span(both.cpu), _span(both.wall), f"{report.largest_difference[peer]:.1e}"]
        for peer, by_set in report.ratios.items()
        if isinstance(by_set, dict)
        for name, both in by_set.items()
    ]
    parts.append(aligned([["cost over ours, equal scores", "set", "CPU seconds", "wall", "largest difference"], *rows]))
    if report.int8 is not None:
        parts.append(_int8(report))
    if report.http is not None:
        shares = [[name, _span(share, 3)] for name, share in report.http.share.items()]
        parts.append(aligned([["HTTP over session, pairs/s", report.http.model], *shares]))
    parts += [f"left out: {name}: {why}" for name, why in report.left_out.items()]
    parts += [
        f"WRONG: the scores of {name} are off by {difference:.1e}, so nothing is said of its cost"
        for name, difference in report.unequal.items()
    ]
    noisy = sum(not turn.quiet for turn in report.turns)
    if noisy:
        parts.append(
            f"{noisy} of {len(report.turns)} turns ran on a machine that was busy with something else: "
            "believe CPU seconds before wall time, and run again on a quiet machine."
        )
    return "\n\n".join(parts)


def memory_lines(memory: MemoryFigures) -> str:
    """Renders the memory section."""
    mib = 1 / 2**20
    return "\n".join(
        (
            f"{memory.served}, at most {memory.max_tokens} tokens a pair",
            f"burst of {memory.burst_texts} x {memory.max_tokens} tokens: {memory.before * mib:.0f} MiB before, "
            f"{min(memory.after_each_quarter_s) * mib:.0f} MiB within 5 s after: {memory.burst_ratio:.3f} of it",
            f"{memory.shapes} random shapes: {memory.shapes_first * mib:.1f} MiB at first, "
            f"{memory.shapes_last * mib:.1f} MiB at last ({memory.growth:+.2%}), "
            f"{memory.shapes_most * mib:.1f} at most",
        )
    )


def _int8(report: BenchReport) -> str:
    assert report.int8 is not None
    if report.int8.reason is not None:
        return f"int8: {report.int8.reason}"
    rows = [[name, _span(both.cpu), _span(both.wall)] for name, both in report.int8.by_set.items()]
    total = report.ratios["int8_over_fp32"]
    assert isinstance(total, Interval)
    head = f"ours fp32 over {report.int8.served}"
    return aligned([[head, "CPU seconds", "wall"], *rows, ["all together", _span(total), ""]])


def _span(value: Interval, digits: int = 2) -> str:
    return f"{value.median:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
