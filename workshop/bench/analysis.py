"""From turns to what they say. Pure: values in, values out; every ratio is of turns of the same round."""

from collections.abc import Callable, Sequence

from workshop.bench.ratios import Interval, interval, paired
from workshop.bench.report import Cost, Floor, Http, Int8, Report, Turn

# The contenders of ours; every other name is a peer's.
OURS, INT8, SESSION, HTTP = "ours", "ours-int8", "session", "http"

# sentence-transformers' default: what batches in arrival order pad is a figure of a set of lists.
USUAL_BATCH = 32


def conclusions(report: Report, served: str, int8: str | None, no_int8: str | None) -> Report:
    """The report with all that follows from its turns. Nothing is said of who gave other scores than it should.

    `int8` names the model that took part as INT8; where none did, `no_int8` says why.
    """
    turns, sets = report.turns, list(report.sets)
    peers = [name for name in report.largest_difference if name != HTTP and name not in report.unequal]
    ratios: dict[str, dict[str, Cost] | Interval | None] = {
        peer: {name: cost(turns, peer, OURS, name) for name in sets} for peer in peers
    }
    if int8 is None:
        ratios["int8_over_fp32"], quantised = None, Int8(served=None, reason=no_int8)
    else:
        ratios["int8_over_fp32"] = over_all_sets(turns, OURS, INT8)
        quantised = Int8(served=int8, reason=None, by_set={name: cost(turns, OURS, INT8, name) for name in sets})
    return report.model_copy(
        update={
            "ratios": ratios,
            "int8": quantised,
            "floor": floor(report),
            "http": None if HTTP in report.unequal else http_share(turns, served, sets),
        }
    )


def cost(turns: Sequence[Turn], above: str, below: str, set_name: str) -> Cost:
    """CPU and wall seconds of `above` over those of `below`."""
    return Cost(cpu=_ratio(turns, above, below, set_name, _cpu_s), wall=_ratio(turns, above, below, set_name, _wall_s))


def over_all_sets(turns: Sequence[Turn], above: str, below: str) -> Interval:
    """CPU seconds of `above` over those of `below`, all sets of a round together."""
    return paired(*(list(_by_round(turns, each, None, _cpu_s).values()) for each in (above, below)))


def http_share(turns: Sequence[Turn], model: str, sets: Sequence[str]) -> Http:
    """What is left of the session's pairs a second on the way through HTTP."""
    return Http(
        model=model,
        share={name: _ratio(turns, SESSION, HTTP, name, _wall_s) for name in sets},
        cpu={name: _ratio(turns, HTTP, SESSION, name, _cpu_s) for name in sets},
    )


def floor(report: Report) -> Floor:
    """Ours in fp32 against matrix products in the same rounds."""
    cores, rates = report.made.machine.cores, report.sgemm_gflops
    best = interval(rates).median
    pairs_per_s, by_wall, by_cpu = {}, {}, {}
    for name, about in report.sets.items():
        pairs = about.lists * about.pairs
        wall_s, cpu_s = (list(_by_round(report.turns, OURS, name, of).values()) for of in (_wall_s, _cpu_s))
        work = pairs * about.gflop_per_pair
        pairs_per_s[name] = interval([pairs / each for each in wall_s])
        by_wall[name] = interval([work / each / (rate * cores) for each, rate in zip(wall_s, rates, strict=True)])
        by_cpu[name] = interval([work / each / rate for each, rate in zip(cpu_s, rates, strict=True)])
    return Floor(
        sgemm_gflops=best,
        floor_pairs_per_s={name: best * cores / about.gflop_per_pair for name, about in report.sets.items()},
        pairs_per_s=pairs_per_s,
        share_by_wall=by_wall,
        share_by_cpu=by_cpu,
    )


def padding(lengths: Sequence[Sequence[int]], rows: int = USUAL_BATCH) -> float:
    """Tokens computed over real ones when each list is cut into batches of `rows` as it comes. One sequence a list."""
    padded = sum(
        len(batch) * max(batch)
        for of_list in lengths
        for batch in (of_list[start : start + rows] for start in range(0, len(of_list), rows))
    )
    return padded / sum(map(sum, lengths))


def difference(scores: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> float:
    """The largest |difference| of two contenders' scores. Raises ValueError when they are not equally many."""
    pairs = [pair for both in zip(scores, reference, strict=True) for pair in zip(*both, strict=True)]
    return max(abs(one - other) for one, other in pairs)


def _cpu_s(turn: Turn) -> float:
    return sum(turn.cpu_s)


def _wall_s(turn: Turn) -> float:
    return sum(turn.wall_s)


def _ratio(turns: Sequence[Turn], above: str, below: str, set_name: str, of: Callable[[Turn], float]) -> Interval:
    return paired(*(list(_by_round(turns, each, set_name, of).values()) for each in (above, below)))


def _by_round(
    turns: Sequence[Turn], contender: str, set_name: str | None, of: Callable[[Turn], float]
) -> dict[int, float]:
    """The sum of `of` in each round, in the order of the rounds, over one set or all."""
    sums: dict[int, float] = {}
    for turn in turns:
        if turn.contender == contender and set_name in (None, turn.set):
            sums[turn.round] = sums.get(turn.round, 0.0) + of(turn)
    return dict(sorted(sums.items()))
