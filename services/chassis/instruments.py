"""Owns the metrics of a process, in a registry of their own (tests run many apps in one process)."""

from collections.abc import Mapping
from functools import cache, partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
# A refusal is to take less than 10 ms.
REFUSAL_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0)


class Instruments:
    """The counters, gauges and histograms. Labels have few values: never ids or queries."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("http_requests_total", "Requests answered", ("method", "route", "status"))
        self.request_seconds = histogram("http_request_seconds", "Time to answer", ("method", "route"), buckets=SECONDS)
        self.refusal_seconds = histogram("http_refusal_seconds", "Time to answer 429", buckets=REFUSAL_SECONDS)
        self.stage_seconds = histogram("stage_seconds", "Time spent in a stage", ("stage",), buckets=SECONDS)
        self.in_flight = gauge("http_requests_in_flight", "Requests that are worked on or wait for it")
        self.rejected = counter("http_requests_rejected_total", "Requests refused with 429", ("lane",))
        self.denied = counter("http_requests_denied_total", "Requests refused for their caller or Host", ("reason",))
        self.limit = gauge("admission_limit", "Cost that may be in flight at once", ("lane",))
        self.admitted = gauge("admission_in_flight", "Cost in flight", ("lane",))
        self.waiting = gauge("admission_waiting", "Requests that wait for a slot", ("lane",))
        self.connections = gauge("http_connections", "Connections open")
        self.connections_ended = counter(
            "http_connections_ended_total", "Connections ended by us for a fault", ("reason",)
        )
        self.certificate_loads = counter(
            "tls_certificate_loads_total",
            "Changed certificates of the port, by whether they could be used",
            ("outcome",),
        )
        self.cached = counter("cached_results_total", "Results looked up in a cache", ("outcome",))
        self.background_deaths = counter(
            "background_task_deaths_total", "Background tasks that died and were restarted", ("task",)
        )
        # Labels have few values; looking up what they name took longer than counting.
        self._of_route = cache(
            lambda method, route, status: (
                self.requests.labels(method, route, str(status)),
                self.request_seconds.labels(method, route),
            )
        )
        self._of_stage = cache(self.stage_seconds.labels)

    def observe(self, method: str, route: str, status: int, seconds: float, timings_ms: Mapping[str, float]) -> None:
        """Records one answered request."""
        answered, request_seconds = self._of_route(method, route, status)
        answered.inc()
        request_seconds.observe(seconds)
        if status == 429:
            self.refusal_seconds.observe(seconds)
        for stage, ms in timings_ms.items():
            self._of_stage(stage).observe(ms / 1000)

    def exposition(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
