"""Checks breaker, probation and retry budget on a clock that only tests advance."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.backends.resilience import Breaker, Probation, RetryBudget


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def nobody() -> None:
    """Starts no watch: the tests call `allow_probe` themselves."""


def opened() -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(clock, nobody)
    for _ in range(5):
        breaker.failed()
    return breaker, clock


def half_open() -> tuple[Breaker, Clock]:
    breaker, clock = opened()
    clock.now += 1.0
    breaker.allow_probe()
    return breaker, clock


def test_a_low_share_of_failures_does_not_open_it() -> None:
    breaker = Breaker(Clock(), nobody)
    for _ in range(20):
        breaker.succeeded()
    for _ in range(10):
        breaker.failed()
    assert breaker.admit()


def test_as_many_failures_as_successes_open_it() -> None:
    breaker = Breaker(Clock(), nobody)
    for _ in range(5):
        breaker.succeeded()
        breaker.failed()
    assert not breaker.admit()


def test_old_failures_are_forgotten() -> None:
    clock = Clock()
    breaker = Breaker(clock, nobody)
    for _ in range(4):
        breaker.failed()
    clock.now = 11.0
    breaker.failed()
    assert breaker.admit()


def test_an_open_breaker_waits_for_its_time_and_for_allow_probe() -> None:
    breaker, clock = opened()
    breaker.allow_probe()
    assert not breaker.admit()
    clock.now = 100.0
    assert not breaker.admit()
    breaker.allow_probe()
    assert breaker.admit()


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker, _ = half_open()
    breaker.admit()
    breaker.succeeded()
    assert breaker.state == "closed"
    assert all(breaker.admit() for _ in range(3))


def test_a_probe_that_fails_opens_it_anew() -> None:
    breaker, clock = half_open()
    breaker.admit()
    breaker.failed()
    breaker.allow_probe()
    assert breaker.state == "open"
    clock.now += 1.0
    breaker.allow_probe()
    assert breaker.admit()


def test_a_probe_that_is_abandoned_makes_room_for_the_next() -> None:
    breaker, _ = half_open()
    breaker.admit()
    breaker.abandoned()
    assert breaker.admit()


def test_retries_are_a_tenth_of_the_calls_in_the_long_run() -> None:
    budget = RetryBudget()
    repeats = 0
    for _ in range(10_000):
        budget.called()
        repeats += budget.take()
    assert 1_000 <= repeats <= 1_006


def test_a_replica_that_fails_its_probes_waits_twice_as_long_each_time() -> None:
    probation = Probation(Clock())
    assert [probation.set_aside() for _ in range(8)] == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 120.0, 120.0]


def test_a_long_recovery_resets_the_wait() -> None:
    clock = Clock()
    probation = Probation(clock)
    assert [probation.set_aside() for _ in range(3)][-1] == 8.0
    probation.back()
    clock.now += 121.0
    assert probation.set_aside() == 2.0


class BreakerMachine(RuleBasedStateMachine):
    """Checks that closed admits, open does not, and half-open admits at most one probe a second."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.openings = 0
        self.breaker = Breaker(self.clock, self.opens)
        self.probes: list[float] = []

    def opens(self) -> None:
        self.openings += 1

    @rule(seconds=st.floats(0.0, 3.0))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(outcome=st.sampled_from(["succeeded", "failed", "abandoned", "allow_probe", "trip"]))
    def something_happens(self, outcome: str) -> None:
        before, openings = self.breaker.state, self.openings
        getattr(self.breaker, outcome)()
        if self.breaker.state == "open" and before != "open":
            assert self.openings == openings + 1  # or nothing would lead out of it
        if before == "open":
            assert self.breaker.state == "open" or outcome == "allow_probe"
        if outcome in ("abandoned", "trip") or before != self.breaker.state:
            self.probes.clear()

    @rule()
    def a_call_comes(self) -> None:
        state = self.breaker.state
        admitted = self.breaker.admit()
        assert admitted == (state == "closed") or state == "half-open"
        if state == "half-open" and admitted:
            assert not self.probes or self.clock.now - self.probes[-1] >= 1.0
            self.probes.append(self.clock.now)

    @invariant()
    def it_can_always_recover(self) -> None:
        assert self.breaker.state in ("closed", "open", "half-open")


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
