"""Defines the `load:` block of an experiment: which traffic is sent, and for how long (evaluator/load sends it)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from services.chassis.deadlines import SEARCH_MS
from services.contracts.base import Wire
from services.contracts.lists import Items

# As the experiment's own: strict, so that no bool counts as a number.
AtLeastOne = Annotated[int, Field(strict=True, ge=1)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]

ArrivalProcess = Literal["poisson", "constant"]
QueryDraw = Literal["uniform", "zipf"]


class CapacityPlan(Wire):
    """Which capacity is searched: the highest Poisson rate whose p99 is at most `p99_ms`. Described: as in LoadPlan."""

    p99_ms: Annotated[float, Field(gt=0, le=120_000, allow_inf_nan=False)] = Field(
        description="Bound of --find-capacity, in milliseconds."
    )
    point_seconds: Annotated[float, Field(gt=0, le=120, allow_inf_nan=False)] = Field(
        120.0, description="--find-capacity: most seconds at one rate (120)."
    )
    warmup_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 5.0  # before each look; within the time

    @model_validator(mode="after")
    def _has_time(self) -> Self:
        if self.warmup_seconds >= self.point_seconds:
            raise ValueError(f"`point_seconds` must be more than the {self.warmup_seconds:g} s of warm-up")
        return self


class LoadPlan(Wire):
    """Traffic through every pipeline of the experiment: each rate, and each number in flight, is a point of its own.

    Each field with a description is an option of `load`, whose help it is (evaluator/commands/load_plan_options.py).
    """

    rates: Annotated[tuple[Rate, ...], Items(0, 32)] = Field(
        (), description="Requests per second, open loop: 20 or 10,20,40."
    )
    in_flight: Annotated[tuple[AtLeastOne, ...], Items(0, 32)] = Field(
        (), description="Requests in flight, closed loop: 8 or 1,8."
    )
    capacity: CapacityPlan | None = Field(None, description="Find the highest rate with a p99 of at most --p99.")
    best_under_ms: Annotated[float, Field(gt=0, le=120_000, allow_inf_nan=False)] | None = Field(
        None, description="Name the best pipeline per rate with a p99 within this many milliseconds."
    )
    seconds: Seconds = Field(60.0, description="Seconds at each rate, without the warm-up.")
    arrivals: ArrivalProcess = Field("poisson", description="Arrival process: poisson or constant.")
    draw: QueryDraw = Field("uniform", description="How queries are drawn: uniform or zipf.")
    deadline_ms: Annotated[int, Field(strict=True, ge=1, le=120_000)] = Field(
        SEARCH_MS, description="Deadline of each request, in milliseconds."
    )
    warmup_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = Field(
        5.0, description="Seconds of the same traffic before measuring."
    )
    # 60 s are 8 slices, the fewest that give ratios intervals.
    slice_seconds: Seconds = Field(7.5, description="Seconds per slice; pipelines take turns by slice.")
    # Above it, requests are dropped. The gateway takes 2,048 connections (services/chassis/server/connections.py).
    most_in_flight: AtLeastOne = 2_000
    # Processes; without it as many as the rate needs (evaluator/load/sending/generators.py). 64 send 50,000 a second.
    generators: Annotated[int, Field(strict=True, ge=1, le=64)] | None = Field(
        None, description="Number of sending processes."
    )
    repeat: AtLeastOne = Field(1, description="Number of times to send the whole plan.")

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
        if not (self.rates or self.in_flight or self.capacity):
            raise ValueError("name at least one of `rates`, `in_flight` and `capacity`")
        if self.best_under_ms is not None and not self.rates:
            raise ValueError("`best_under_ms` compares pipelines at a rate: give `rates`")
        if self.capacity is not None and self.arrivals != "poisson":
            raise ValueError("`capacity` searches with Poisson arrivals: `arrivals` must be poisson")
        return self
