"""What the record of a machine holds of GPUs and CPU limit."""

from pathlib import Path

import pytest

from evaluator.machine.environment_record import Gpu, describe_machine
from evaluator.machine.machine_conditions import MachineCounters

ASKED = "--query-gpu=name,memory.total --format=csv,noheader,nounits"


@pytest.fixture
def counters(tmp_path: Path) -> MachineCounters:
    return MachineCounters(proc=tmp_path / "proc", cgroups=tmp_path / "cgroup")


def write(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


def put_nvidia_smi(script: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this script the only program that is found by its name alone."""
    write(directory / "nvidia-smi", f"#!/bin/sh\n{script}\n")
    (directory / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


def test_every_gpu_is_named_with_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "echo 'NVIDIA A100-SXM4-80GB, 81920'; echo 'NVIDIA GB10, [N/A]'"
    put_nvidia_smi(f'[ "$*" = "{ASKED}" ] || exit 9; {answer}', tmp_path, monkeypatch)
    machine = describe_machine()
    assert machine.gpus == (
        Gpu(name="NVIDIA A100-SXM4-80GB", memory_mib=81_920),
        Gpu(name="NVIDIA GB10", memory_mib=None),
    )
    assert machine.in_words.endswith(", GPU NVIDIA A100-SXM4-80GB (81920 MiB), GPU NVIDIA GB10")


@pytest.mark.parametrize("script", ["echo 'NVIDIA A100, 81920'; exit 9", "exec /bin/sleep 60", "echo 'No devices'"])
def test_where_nvidia_smi_fails_hangs_or_names_none_there_is_no_gpu(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.machine.environment_record.GPUS_WITHIN_S", 0.5)
    put_nvidia_smi(script, tmp_path, monkeypatch)
    assert describe_machine().gpus == ()


def test_the_least_limit_of_the_cgroups_is_recorded(
    counters: MachineCounters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write(counters.proc / "self" / "cgroup", "4:memory:/a\n0::/pod/run\n")
    write(counters.cgroups / "pod" / "run" / "cpu.max", "max 100000\n")
    write(counters.cgroups / "pod" / "cpu.max", "150000 100000\n")
    write(counters.cgroups / "cpu.max", "200000 100000\n")
    machine = describe_machine(2, counters)
    assert machine.cpu_limit == 1.5
    assert machine.in_words == f"{machine.cpu}, 2 cores, CPU limit 1.5 cores"


@pytest.mark.parametrize("groups", ["4:cpu:/a\n", "0::/\n"])
def test_a_limit_that_the_machine_does_not_report_is_null(groups: str, counters: MachineCounters) -> None:
    write(counters.proc / "self" / "cgroup", groups)
    assert describe_machine(counters=counters).cpu_limit is None
