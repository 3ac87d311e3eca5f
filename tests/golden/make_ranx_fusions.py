"""Fuses random rankings with ranx, and writes what `tests/unit/services/ranking/test_fusion.py` compares with.

.venv/bin/python -m tests.golden.make_ranx_fusions
"""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

# Compiling takes 100 s.
os.environ["NUMBA_DISABLE_JIT"] = "1"

SEED, CASES = 20_261_126, 8
FILE = Path(__file__).with_name("ranx_fusions.json")
NAMES = [f"d{number:02}" for number in range(12)]


def cases(dice: Random) -> list[dict[str, Any]]:
    """Returns rankings of whole numbers: scores that differ do so by more than rounding."""
    fusions: list[dict[str, Any]] = []
    for _ in range(CASES):
        count = dice.choice([2, 3])
        weights = dice.choices([0.25, 0.5, 1.0, 2.0], k=count)
        # Without equal scores, whose ranks ranx draws, and for min-max with two scores at least.
        legs = [_leg(dice, dice.sample(NAMES, dice.randint(2, 12))) for _ in range(count)]
        fusions.append({"method": "rrf", "norm": None, "params": {"k": 60}, "legs": legs})
        fusions.append({"method": "wsum", "norm": "min-max", "params": {"weights": weights}, "legs": legs})
        # ranx gives a missing document 0, so that every leg has every document.
        names = dice.sample(NAMES, dice.randint(2, 12))
        whole = [_leg(dice, names) for _ in range(count)]
        fusions.append({"method": "wsum", "norm": "z-score", "params": {"weights": weights}, "legs": whole})
    return fusions


def _leg(dice: Random, names: list[str]) -> dict[str, float]:
    return dict(zip(names, map(float, dice.sample(range(1, 65), len(names))), strict=True))


def main() -> None:
    """Writes the file."""
    from ranx import Run, fuse
    from ranx.normalization import min_max_norm, zmuv_norm

    norms = {"min-max": min_max_norm, "z-score": zmuv_norm}
    made = cases(Random(SEED))
    for case in made:
        runs = [Run({"q": leg}) for leg in case["legs"]]
        if case["norm"]:
            runs = [norms[case["norm"]](run) for run in runs]
        fused = fuse(runs=runs, norm=None, method=case["method"], params=case["params"]).to_dict()["q"]
        case["fused"] = {name: float(score) for name, score in fused.items()}
    FILE.write_text("[\n" + ",\n".join(map(json.dumps, made)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
