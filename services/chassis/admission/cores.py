"""Counts the cores that this process may use. Owns affinity and cgroup quotas; starts no threads."""

import math
import os
from collections.abc import Sequence
from pathlib import Path


def available_cores() -> int:
    """Returns the cores of this process: the smaller of its affinity and its cgroup's CPU quota, at least 1."""
    return usable_cores(len(os.sched_getaffinity(0)), _quotas())


def usable_cores(affinity: int, quotas: Sequence[float]) -> int:
    """Returns the least of the limits, rounded down: with 1.5 cores two threads would be throttled in every period."""
    return max(1, min([affinity, *(math.floor(quota) for quota in quotas)]))


def _quotas(root: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """Reads quotas in cores, from cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us); empty when there is no limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return []
    return [int(quota) / int(period)] if quota.isdigit() else []
