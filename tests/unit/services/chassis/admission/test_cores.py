"""Checks that the number of cores follows affinity and cgroup quotas."""

import pytest

from services.chassis.admission.cores import _quotas, available_cores, usable_cores


@pytest.mark.parametrize(
    ("affinity", "quotas", "cores"), [(8, [], 8), (8, [2.0], 2), (8, [1.5], 1), (8, [0.5], 1), (1, [4.0], 1)]
)
def test_cores_are_the_smaller_of_affinity_and_quota(affinity, quotas, cores):
    assert usable_cores(affinity, quotas) == cores
    assert available_cores() >= 1


def test_the_quota_is_read_from_both_versions_of_cgroup(tmp_path):
    assert _quotas(tmp_path) == []
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("150000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert _quotas(tmp_path) == [1.5]
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert _quotas(tmp_path) == []
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert _quotas(tmp_path) == [2.0]
