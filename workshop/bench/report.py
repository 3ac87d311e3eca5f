"""Models, reads and writes `.runs/bench-rerank.json`: results, environment and every raw number. Version 1."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from evaluator.machine.environment_record import Environment, collect_environment
from services.chassis.admission.cores import available_cores
from services.contracts.base import Count, Wire
from services.inference.profiles import ROOT

# Two fp32 runs of one graph differ by the order of additions alone.
MOST_DIFFERENCE = 1e-5

REPORT = ROOT / ".runs" / "bench-rerank.json"


class ReportError(Exception):
    """The file on disk is not a report; the message says what to do."""


class Interval(Wire):
    """The median of one ratio a round, and the bootstrap 95 % interval of that median over the rounds.

    With five rounds the interval is close to the smallest and the largest round.
    """

    median: float
    low: float
    high: float


class BenchModel(Wire):
    """The graph that every contender of `ratios` ran."""

    name: str
    sha256: str  # of the plain fp32 graph
    source_sha256: str  # of the graph in models.yaml that it was made from
    max_tokens: Count


class ListStatistics(Wire):
    """Sizes of one set of candidate lists. `padding`: padded over real tokens, for batches of 32 in arrival order."""

    lists: Count
    pairs: Count
    mean_tokens: float
    p95_tokens: float
    most_tokens: Count
    padding: float


class BenchTurn(Wire):
    """Cost of one contender over all lists of one set in one round. One entry a list."""

    round: Count
    set: str
    contender: str
    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    foreign: float | None  # share of all cores that other processes used meanwhile; null: the machine does not tell
    steal: float | None = None  # share of all cores that a hypervisor took
    quiet: bool  # nothing of evaluator.machine.machine_conditions.condition_faults


class CostRatio(Wire):
    """Ratios of CPU seconds and of wall time. Of a peer: its cost over ours."""

    cpu: Interval
    wall: Interval


class HttpShare(Wire):
    """Pairs a second of the service, from request to answer, over those of its session alone."""

    model: str
    share: dict[str, Interval]  # by set
    cpu: dict[str, Interval]  # CPU seconds of the service over those of the session's process


class Int8Comparison(Wire):
    """Cost of ours in fp32 over ours in int8, by set; or the reason why there is none."""

    served: str | None  # a model of models.yaml
    reason: str | None
    by_set: dict[str, CostRatio] = {}


class MemoryFigures(Wire):
    """Resident bytes of the service, before, during and after (memory.py)."""

    served: str  # a model of models.yaml
    max_tokens: Count  # of a pair; each text of the burst has so many
    burst_texts: Count
    before: Count
    after_each_quarter_s: tuple[Count, ...]
    burst_ratio: float  # the least within 5 s after the burst, over before
    shapes: Count
    shapes_first: Count  # after the warm-up
    shapes_last: Count
    shapes_most: Count
    growth: float  # last over first, minus 1


class BenchReport(Wire):
    """The whole file. A section stays empty until the command that fills it has run."""

    version: Literal[1] = 1
    made: Environment
    model: BenchModel | None = None
    sets: dict[str, ListStatistics] = {}
    left_out: dict[str, str] = {}  # sets and peers that could not take part, and why
    contenders: dict[str, dict[str, str]] = {}
    largest_difference: dict[str, float] = {}  # by contender: of any score to ours in fp32
    ratios: dict[str, dict[str, CostRatio] | Interval | None] = Field(
        default={},
        description="by peer and set; `int8_over_fp32` is one interval of CPU seconds over all sets, or null",
    )
    http: HttpShare | None = None
    int8: Int8Comparison | None = None
    turns: tuple[BenchTurn, ...] = ()
    memory: MemoryFigures | None = None

    @property
    def unequal(self) -> dict[str, float]:
        """Contenders whose scores differ from the reference, and by how much at most."""
        return {
            name: difference for name, difference in self.largest_difference.items() if not difference < MOST_DIFFERENCE
        }


def bench_environment() -> Environment:
    """Collects commit, versions and machine for the report."""
    return collect_environment(("onnxruntime", "tokenizers", "numpy"), available_cores())


def read_report(path: Path) -> BenchReport | None:
    """Reads the report; None when there is no file. Raises ReportError when the file is not a report."""
    try:
        return BenchReport.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ReportError(f"{path} is no report of this version: remove it and run `make bench-rerank`.") from error


def write_report(report: BenchReport, path: Path) -> None:
    """Writes the report atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".new")
    scratch.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)
