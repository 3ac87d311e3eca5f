"""Defines the `load:` block of an experiment: which traffic is sent, and for how long (evaluator/load sends it)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from services.contracts.base import Count, Text, Wire
from services.contracts.lists import Items

# As the experiment's own: strict, so that no bool counts as a number.
AtLeastOne = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

ArrivalProcess = Literal["poisson", "constant"]
QueryDraw = Literal["uniform", "zipf"]


class TrafficStep(Wire):
    """Some seconds at one rate, or with a rate that changes evenly from `rate` to `to`."""

    rate: Rate  # requests a second
    to: Rate | None = None
    seconds: Seconds


class CapacityPlan(Wire):
    """Which capacity is searched: the highest Poisson rate whose p99 is at most `p99_ms`."""

    p99_ms: Annotated[float, Field(gt=0, le=120_000, allow_inf_nan=False)]
    point_seconds: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] = 120.0  # of one rate, at most
    warmup_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 5.0  # before each look; within the time

    @model_validator(mode="after")
    def _has_time(self) -> Self:
        if self.warmup_seconds >= self.point_seconds:
            raise ValueError(f"`point_seconds` must be more than the {self.warmup_seconds:g} s of warm-up")
        return self


class LoadPlan(Wire):
    """Traffic through every pipeline of the experiment: each rate, and each number in flight, is a point of its own."""

    rates: Annotated[tuple[Rate, ...], Items(0, 32)] = ()  # open loop, requests a second
    steps: Annotated[tuple[TrafficStep, ...], Items(0, 64)] = ()  # open loop, one point of changing rates
    trace: Text | None = None  # open loop, a file with `time,query,pipeline` (evaluator/load/sending/trace.py)
    in_flight: Annotated[tuple[AtLeastOne, ...], Items(0, 32)] = ()  # closed loop: capacity, no tail
    capacity: CapacityPlan | None = None  # open loop; finds its rates itself (evaluator/load/capacity/search.py)
    best_under_ms: Annotated[float, Field(gt=0, le=120_000, allow_inf_nan=False)] | None = None  # of p99 at each rate
    while_loading: bool = False  # each rate twice, in alternating slices: idle, and while the corpus is loaded
    seconds: Seconds = 60.0  # of each point of `rates` and `in_flight`, without its warm-up
    arrivals: ArrivalProcess = "poisson"
    draw: QueryDraw = "uniform"
    zipf_exponent: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 1.0
    deadline_ms: Annotated[int, Field(strict=True, ge=1, le=120_000)] = 10_000  # the app's
    warmup_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = 5.0
    # Length of a slice; then the next pipeline is driven. 60 s are 8 of them, the fewest that give ratios intervals.
    slice_seconds: Seconds = 7.5
    # Above it, requests are dropped. The gateway takes 2,048 connections (services/chassis/server/connections.py).
    most_in_flight: AtLeastOne = 2_000
    # Processes; without it as many as the rate needs (evaluator/load/sending/generators.py). 64 send 50,000 a second.
    generators: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    repeat: AtLeastOne = 1  # the whole plan, so many times
    seed: Count | None = None  # of arrivals and queries; without it the experiment's

    @model_validator(mode="after")
    def _once_each(self) -> Self:
        # The files of a point have the rate in their names, as it is written here.
        for field, names in (
            ("rates", [f"{rate:g}" for rate in self.rates]),
            ("in_flight", [*map(str, self.in_flight)]),
        ):
            if again := [name for number, name in enumerate(names) if name in names[:number]]:
                raise ValueError(
                    f"`{field}` {','.join(names)}: {again[0]} is there twice; `repeat` sends everything several times"
                )
        return self

    @model_validator(mode="after")
    def _has_traffic(self) -> Self:
        if not (self.rates or self.steps or self.trace or self.in_flight or self.capacity):
            raise ValueError("name at least one of `rates`, `steps`, `trace`, `in_flight` and `capacity`")
        if self.best_under_ms is not None and not self.rates:
            raise ValueError("`best_under_ms` compares pipelines at a rate: give `rates`")
        if self.while_loading and (not self.rates or self.steps or self.trace or self.in_flight or self.capacity):
            raise ValueError("`while_loading` compares at steady rates: give `rates`, and no other traffic")
        if self.capacity is not None and self.arrivals != "poisson":
            raise ValueError("`capacity` searches with Poisson arrivals: `arrivals` must be poisson")
        return self

    def seed_or(self, other: int) -> int:
        """Returns the plan's seed, or the other where it has none."""
        return other if self.seed is None else self.seed
