"""Writes docs/process-metrics.md from the registries of all processes: `python -m tests.support.metrics_page`."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.keys import made_keys
from tests.support.route_keys import SERVICES, service_app

PAGE = Path(__file__).parents[2] / "docs" / "process-metrics.md"
HEAD = """# Metrics of the processes

What `/metrics` of each process has, read off its registry. A histogram has `_bucket`, `_sum` and `_count`. The two
`data_disk` gauges are of stores on Qdrant Edge. [Alerts and a dashboard](../deploy/README.md#metrics-and-alerts).

| metric | type | labels | process | what |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of a process."""

    kind: str
    labels: tuple[str, ...]
    help: str

    def names(self, name: str) -> set[str]:
        """Returns the names of its series."""
        return {f"{name}_{part}" for part in ("bucket", "sum", "count")} if self.kind == "histogram" else {name}


def metrics() -> Mapping[str, Mapping[str, Metric]]:
    """Returns the metrics of every process by name, each with its processes."""
    found: dict[str, dict[str, Metric]] = {}
    with tempfile.TemporaryDirectory() as directory:
        keys = made_keys(Path(directory))
        for service in SERVICES:
            (Path(directory) / service).mkdir()  # whose disk is measured
            registry = service_app(service, Path(directory), keys).state.instruments.registry
            # The library shows the labels of a metric without series nowhere else.
            named = registry._collector_to_names.items()
            labels = {name: getattr(of, "_labelnames", ()) for of, names in named for name in names}
            for family in registry.collect():
                name = f"{family.name}_total" if family.type == "counter" else family.name
                metric = Metric(family.type, tuple(labels.get(family.name, ())), family.documentation)
                found.setdefault(name, {})[service] = metric
    return found


def page() -> str:
    """Returns the page."""
    rows = []
    for name, of in sorted(metrics().items()):
        (metric,) = set(of.values())
        processes = "all" if len(of) == len(SERVICES) else ", ".join(of)
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{name}` | {metric.kind} | {labels} | {processes} | {metric.help} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
