"""A slice that other work disturbs is sent again, within three times its length; the calmest drive counts."""

from datetime import UTC, datetime

import pytest

from evaluator.load.sending import driven_traffic
from evaluator.load.sending.driven_traffic import calmest
from evaluator.load.sending.drives import LoadedPoint
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_points import CLEAN
from tests.support.load_samples import load_sample


def drive(disturbed: int) -> LoadedPoint:
    samples = tuple(load_sample(at, disturbed=at < disturbed) for at in range(10))
    return LoadedPoint(samples, MachineConditions.model_validate(CLEAN), (), True, datetime.now(UTC), 1.0)


@pytest.mark.parametrize(
    ("drives", "quiet", "sent", "share"), [([0], True, 1, 0.0), ([5, 0], True, 2, 0.0), ([5, 0], False, 1, 0.5)]
)
async def test_the_calmest_drive_counts(
    monkeypatch: pytest.MonkeyPatch, drives: list[int], quiet: bool, sent: int, share: float
) -> None:
    async def at_once(_seconds: float, _measured: object) -> bool:
        return quiet

    left = iter(drives)

    async def sending() -> LoadedPoint:
        done.append(next(left))
        return drive(done[-1])

    done: list[int] = []
    monkeypatch.setattr(driven_traffic, "quiet_within", at_once)
    assert ((await calmest(sending, None)).disturbed, len(done)) == (share, sent)
