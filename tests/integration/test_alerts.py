"""Checks deploy/observability: alerts by promtool; that the metrics and labels of alerts and dashboard exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.soak.alerts import SHORTER, scaled
from tests.support.metrics_page import Metric, metrics
from tests.support.processes import ROOT

pytestmark = pytest.mark.integration
OBSERVABILITY = ROOT / "deploy" / "observability"
RULES = [
    rule
    for group in yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
# Of a target, and of Prometheus itself.
TARGET = {"instance", "job"}
WORDS = {"sum", "by", "rate", "on", "group_left", "and", "or", "unless", "offset", "min_over_time", "resets"}
WORDS |= {"histogram_quantile", "label_values", "up"}


def promtool(*arguments: str) -> None:
    assert shutil.which("promtool"), "no promtool here: `make prometheus` installs it"
    done = subprocess.run(["promtool", *arguments], cwd=OBSERVABILITY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_valid() -> None:
    promtool("check", "rules", "alerts.yaml")
    promtool("check", "config", "prometheus.yaml")


def test_each_alert_fires_on_its_fault_alone_and_resolves() -> None:
    promtool("test", "rules", "alerts_test.yaml")


def test_the_rules_of_the_rehearsal_have_every_window_shorter(tmp_path: Path) -> None:
    rules = scaled((OBSERVABILITY / "alerts.yaml").read_text(encoding="utf-8"))
    assert re.findall(r"(?:\[|for: |offset )\d+[smh]\b", rules) == []
    assert f"[{3_600_000 // SHORTER}ms]" in rules
    (tmp_path / "alerts.yaml").write_text(rules, encoding="utf-8")
    promtool("check", "rules", str(tmp_path / "alerts.yaml"))


def test_each_alert_has_a_case_and_a_runbook_of_three_lines() -> None:
    cases = (OBSERVABILITY / "alerts_test.yaml").read_text(encoding="utf-8")
    for alert in ALERTS:
        assert f'alertname="{alert["alert"]}"' in cases
        assert alert["annotations"]["summary"]
        heads = [line.split(":")[0] for line in alert["annotations"]["runbook"].splitlines()]
        assert heads == ["Metric", "Log and trace", "Do"]


def expressions() -> Iterator[str]:
    """Yields the expressions of rules and dashboard, and the metrics that runbooks name with their labels."""
    yield from (rule["expr"] for rule in RULES)
    board = json.loads((OBSERVABILITY / "dashboard.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"] + " " + " ".join(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    yield from (variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query")


def unknown(expression: str, known: dict[str, Metric], recorded: set[str]) -> set[str]:
    """Returns the names in an expression that are no metric, no label of its metrics, and no word of PromQL."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|offset \w+', "", expression)
    names = set(re.findall(r"[a-zA-Z_][\w:]*", bare)) - WORDS - TARGET - recorded
    labels = {label for name in names & known.keys() for label in known[name].labels}
    labels |= {"le"} if any(name.endswith("_bucket") for name in names) else set()
    return names - known.keys() - labels


def test_every_metric_and_label_of_alerts_and_dashboard_exists() -> None:
    known = {
        series: metric for name, of in metrics().items() for metric in of.values() for series in metric.names(name)
    }
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    found = list(expressions())
    assert len(found) > 30
    assert {expression: names for expression in found if (names := unknown(expression, known, recorded))} == {}
    assert unknown('rate(search_seconds_count{pipelin="a"}[5m]) + gone_total', known, recorded) == {
        "pipelin",
        "gone_total",
    }
    runbooks = " ".join(alert["annotations"]["runbook"] for alert in ALERTS)
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)*_(?:total|seconds|bytes|open|waiting|limit|in_flight)\b", runbooks))
    assert named
    assert named <= metrics().keys()
