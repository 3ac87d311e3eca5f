"""Files of releases that measured the speed of the machine beside a load: they are still read."""

import json
from pathlib import Path

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.load_report import LoadReport
from evaluator.runs.run_folder import RunFolder
from tests.support.load_points import load_point, load_report

READING = {
    "service_ms": {
        "p50": 2.57, "p95": 2.91, "p99": 3.4, "intervals": {"p50": [2.55, 2.6], "p95": [2.88, 3.0], "p99": [3.1, 4.2]},
    },
    "conditions": {
        "seconds": 4.1, "cores": 2, "foreign": 0.02, "steal": 0.0, "throttled": 0.0, "pressure": 0.3, "frequency": None,
    },
}  # fmt: skip
CALIBRATION = {"work": "pbkdf2-sha256 x 8000", "before": READING, "after": READING}


def test_a_load_with_a_calibration_is_read_and_all_other_figures_are_kept(tmp_path: Path) -> None:
    plan = LoadPlan(rates=(20,))
    experiment = Experiment.model_validate({"name": "old", "dataset": "scifact", "pipelines": ["bm25"], "load": plan})
    folder = RunFolder.create(tmp_path, experiment)
    report = load_report(load_point(n=30))
    old = report.model_dump(mode="json") | {"calibration": CALIBRATION}
    old["plan"]["calibration_seconds"] = 3.0
    (folder.path / "load.json").write_text(json.dumps(old))
    assert folder.read("load.json", LoadReport) == report

    settings = experiment.model_dump(mode="json")
    settings["load"]["calibration_seconds"] = 3.0
    (folder.path / "experiment.json").write_text(json.dumps(settings))
    assert folder.experiment == experiment
