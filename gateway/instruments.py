"""Owns the metrics that the gateway alone has, beside those of every process."""

from functools import cache, partial

from prometheus_client import Counter, Gauge, Histogram

from services.chassis.instruments import SECONDS, Instruments

# Collections with series of their own, the first that are searched: callers choose these names, without end.
MOST_COLLECTIONS = 50
OTHER = "other"


class GatewayInstruments(Instruments):
    """Counts searches, their degradations, and what happens to backends, publications and the journal."""

    def __init__(self) -> None:
        super().__init__()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.search_seconds = Histogram(
            "search_seconds",
            "Time of an answered search without waiting; inline pipelines are `other`, as are collections after the "
            f"first {MOST_COLLECTIONS}",
            ("pipeline", "collection", "experiment", "arm"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.degraded_searches = counter(
            "degraded_searches_total", "Answered searches with a degraded stage", ("pipeline", "collection")
        )
        self.degraded = counter("degraded_total", "Stages that did less than asked", ("stage_kind", "reason"))
        self.outside_experiments = counter(
            "searches_outside_experiments_total",
            "Searches of an experiment that its first arm answered outside of it",
            ("experiment",),
        )
        self.journal_lines = counter(
            "journal_lines_total",
            "Exposures and events of the journal, by whether they were written",
            ("kind", "outcome"),
        )
        self.breakers_opened = counter(
            "breakers_opened_total", "Times that a replica of a backend was set aside", ("backend",)
        )
        self.breakers_open = gauge("breakers_open", "Replicas of a backend that are set aside now", ("backend",))
        self.backend_failures = counter(
            "backend_failures_total",
            "Calls that a backend failed, repeated ones too; `full`: its disk is",
            ("backend", "work", "reason"),
        )
        self.publication_seconds = gauge("publication_seconds", "Age of the oldest publication that runs; 0: none does")
        self._of_search = cache(self.search_seconds.labels)
        self._collections: set[str] = set()

    def observe_search(
        self, seconds: float, pipeline: str, collection: str, experiment: str, arm: str, *, degraded: bool
    ) -> None:
        """Records one answered search."""
        if len(self._collections) < MOST_COLLECTIONS:
            self._collections.add(collection)
        shown = collection if collection in self._collections else OTHER
        self._of_search(pipeline, shown, experiment, arm).observe(seconds)
        if degraded:
            self.degraded_searches.labels(pipeline, shown).inc()
