"""Which loads may be compared, and what a refusal names."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import CapacityPlan, LoadPlan, TrafficStep
from evaluator.load.calibration import Calibration
from evaluator.load.comparable import KeptLoad, LoadSetting, expect_comparable, remarked_differences
from evaluator.machine.environment_record import Gpu
from evaluator.runs.manifest import Manifest, build_manifest
from evaluator.steps.prepared_run import load_dataset
from tests.support.load_points import load_point, load_report
from tests.support.simulated_loads import simulated_calibration
from tests.support.small_runs import planned

CALIBRATION = simulated_calibration("a", 1.0, 1.0)
POINT = load_point("bm25", n=60)
PLAN = LoadPlan(rates=(20,))
Change = Callable[[LoadSetting], LoadSetting]


@pytest.fixture
def setting(tmp_path: Path) -> LoadSetting:
    experiment = planned(tmp_path)
    prints = {"bm25": "a", "hybrid": "b"}
    manifest = build_manifest(experiment, load_dataset(experiment), "http://127.0.0.1:8000", "shop@1", {}, prints)
    return LoadSetting(PLAN, seed=1, top=10, caches=False, sample=None, manifest=manifest)


def kept(setting: LoadSetting, calibration: Calibration | None = CALIBRATION) -> KeptLoad:
    return KeptLoad("runs/old", load_report(POINT).model_copy(update={"calibration": calibration}), setting)


def manifest(**given: object) -> Change:
    return lambda one: replace(one, manifest=one.manifest.model_copy(update=given))


def machine(**given: object) -> Change:
    return lambda one: manifest(machine=one.manifest.machine.model_copy(update=given))(one)


def plan(**given: object) -> Change:
    return lambda one: replace(one, plan=one.plan.model_copy(update=given))


def of_another_corpus(one: LoadSetting) -> LoadSetting:
    return manifest(dataset_sha256={**one.manifest.dataset_sha256, "corpus.jsonl": "0"})(one)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (machine(cpu="Another CPU", cores=64), r"machine .*, now Another CPU; cores \d+, now 64"),
        (machine(memory_bytes=2**30), r"memory .* GiB, now 1\.0 GiB"),
        (machine(gpus=(Gpu(name="T4", memory_mib=15_360),)), r"GPUs .*, now T4 \(15360 MiB\)"),
        (machine(cpu_limit=0.25), r"CPU limit .*, now 0\.25"),
        (of_another_corpus, r"dataset \(corpus\.jsonl\)"),
        (plan(rates=(20.0, 40.5)), r"rates 20, now 20, 40\.5$"),
        (plan(seconds=30.0, deadline_ms=500), "seconds 60, now 30; deadline_ms 10000, now 500"),
        (
            plan(rates=(), steps=(TrafficStep(rate=5, seconds=30), TrafficStep(rate=5, to=9, seconds=1.5))),
            r"rates 20, now none; steps none, now \{rate: 5, seconds: 30\}, \{rate: 5, to: 9, seconds: 1\.5\}$",
        ),
        (plan(draw="zipf"), "draw uniform, now zipf"),
        (plan(arrivals="constant"), "arrivals poisson, now constant"),
        (lambda one: replace(one, seed=2), "seed 1, now 2"),
        (lambda one: replace(one, top=20), "top 10, now 20"),
        (lambda one: replace(one, caches=True), "caches off, now on"),
        (lambda one: replace(one, sample=9), "queries none, now 9"),
        (manifest(pipelines={"bm25": "a"}), "pipelines bm25, hybrid, now bm25"),
    ],
)
def test_another_machine_dataset_or_load_is_refused_and_named(setting: LoadSetting, change: Change, said: str) -> None:
    with pytest.raises(EvaluationError, match=f"runs/old cannot be compared, because these differ: {said}"):
        expect_comparable(kept(setting), change(setting))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (manifest(), plan(capacity=CapacityPlan(p99_ms=500)), "leave --find-capacity out"),
        (manifest(), plan(calibration_seconds=0.0), "calibration_seconds of the load is 0"),
        (
            manifest(),
            manifest(gateway="http://10.0.0.7:8000"),
            r"the new run: the gateway http://10\.0\.0\.7:8000 is not",
        ),
        (manifest(gateway="http://10.0.0.7:8000"), manifest(), r"runs/old: the gateway http://10\.0\.0\.7:8000 is not"),
    ],
)
def test_a_comparison_without_the_speed_of_the_machine_is_refused(
    setting: LoadSetting, old: Change, new: Change, said: str
) -> None:
    with pytest.raises(EvaluationError, match=said):
        expect_comparable(kept(old(setting)), new(setting))


def test_an_old_run_without_a_calibration_or_with_another_one_is_refused_with_what_to_do(setting: LoadSetting) -> None:
    with pytest.raises(EvaluationError, match=r"runs/old has no calibration.*send that load again"):
        expect_comparable(kept(setting, None), setting)
    other = CALIBRATION.model_copy(update={"work": "sleep"})
    with pytest.raises(EvaluationError, match=r"other work \(sleep, now pbkdf2.*send that load again"):
        expect_comparable(kept(setting, other), setting)


def test_software_pipelines_and_reading_a_result_may_differ_and_software_is_named(setting: LoadSetting) -> None:
    new = manifest(git_commit="b" * 40, packages={"numpy": "9"}, pipelines={"bm25": "a", "hybrid": "c"})(setting)
    new = plan(best_under_ms=250.0, calibration_seconds=5.0)(machine(host="b2", governor="powersave")(new))
    old = manifest(git_commit="a" * 40, git_dirty=False, packages={"numpy": "8"})(setting)
    old = machine(governor="performance")(old)
    expect_comparable(kept(old), manifest(git_dirty=False)(new))
    assert list(remarked_differences(old, manifest(git_dirty=False)(new))) == [
        f"commit {'a' * 40}, now {'b' * 40}",
        "numpy 8, now 9",
        f"host {setting.manifest.machine.host}, now b2",
        "governor performance, now powersave",
        "pipeline hybrid b, now c",
    ]


def test_the_manifest_of_a_run_is_comparable_with_itself(setting: LoadSetting) -> None:
    assert isinstance(setting.manifest, Manifest)
    expect_comparable(kept(setting), setting)
    assert list(remarked_differences(setting, setting)) == []
