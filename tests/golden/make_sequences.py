"""Writes what `tests/unit/evaluator/metrics/test_sequential.py` compares with, sharing no code with the product.

Intervals come from their definition: a mean is outside where the normal mixture of exp(l S - l² V / 2), integrated
numerically, reaches 1 / alpha. Bayes factors come from ssrm-test, the package beside the paper.

    python -m venv apart; apart/bin/pip install 'numpy<2' scipy toolz mpmath ssrm-test==0.1.5
    apart/bin/python tests/golden/make_sequences.py
"""

import json
from pathlib import Path
from random import Random
from typing import Any

ALPHA = 0.05
FILE = Path(__file__).with_name("sequences.json")


def half_width(values: list[float], tightest: int) -> float:
    """Returns half of the width of the interval of a mean, by a root of the mixture."""
    from mpmath import exp, findroot, inf, log, mpf, npdf, quad, sqrt

    count = len(values)
    average = sum(values) / count
    spread = sqrt(sum((value - average) ** 2 for value in values) / count)
    rho = sqrt((-2 * log(ALPHA) + log(-2 * log(ALPHA) + 1)) / mpf(tightest))

    def excess(total: float) -> object:
        peak = total / (count + 1 / rho**2)
        mixture = quad(
            lambda at: exp(at * total - at**2 * count / 2) * npdf(at, 0, rho), [-inf, 0, peak, 2 * peak, inf]
        )
        return log(mixture) + log(ALPHA)

    root = findroot(excess, (2 * sqrt(count), 8 * sqrt(count)), solver="anderson", tol=1e-12)
    return float(spread * root / count)


def terms(units: list[tuple[bool, float, float]]) -> list[float]:
    """Returns each unit's term, its means taken anew from all units before it."""
    found = [0.0]
    for at, (treated, share, value) in enumerate(units[1:], 1):
        before = [earlier for _, _, earlier in units[:at]]
        means = []
        for side in (False, True):
            arm = [earlier for which, _, earlier in units[:at] if which == side] or before
            means.append(sum(arm) / len(arm))
        probability = share if treated else 1 - share
        found.append(means[1] - means[0] + (1 if treated else -1) * (value - means[treated]) / probability)
    return found


def spread_alike(units: list[tuple[bool, float, float]]) -> float:
    """Returns the standard deviation of a unit's term where both arms vary as all units do together."""
    values = [value for _, _, value in units]
    average = sum(values) / len(values)
    variance = sum((value - average) ** 2 for value in values) / len(values)
    return float((variance * sum(1 / (share * (1 - share)) for _, share, _ in units) / len(units)) ** 0.5)


def main() -> None:
    """Writes the file."""
    import numpy as np
    from ssrm_test.ssrm_test import sequential_bayes_factors

    dice = Random(20_261_129)
    differences: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    for shares, draw in (
        ((0.5,), lambda: float(dice.random() < 0.3)),
        ((0.3, 0.5), lambda: round(dice.gauss(5.0, 2.0), 3)),
        ((0.7, 0.2), lambda: round(dice.lognormvariate(0.0, 1.0), 3)),
    ):
        units = []
        for at in range(600):
            share = shares[at * len(shares) // 600]
            units.append((dice.random() < share, share, draw()))
        found = terms(units)
        centre = sum(found) / len(found)
        own = (sum((term - centre) ** 2 for term in found) / len(found)) ** 0.5
        half = half_width(found, 10_000) * max(own, spread_alike(units)) / own
        differences.append({"units": units, "difference": centre, "interval": [centre - half, centre + half]})
        values = [value for _, _, value in units][:150]
        half, centre = half_width(values, 1_000), sum(values) / len(values)
        means.append({"values": values, "interval": [centre - half, centre + half]})
    for expected in ([0.5, 0.5], [0.6, 0.3, 0.1]):
        arms = dice.choices(range(len(expected)), weights=[1.15, *[1.0] * (len(expected) - 1)], k=400)
        rows = np.eye(len(expected), dtype=int)[arms]
        factors = sequential_bayes_factors(rows, np.array(expected), dirichlet_concentration=1_000)
        ratios.append({"shares": expected, "arms": arms, "factors": [float(factors[at]) for at in (0, 99, 399)]})
    cases = {"differences": differences, "means": means, "ratios": ratios}
    lines = [f'"{name}": [\n' + ",\n".join(map(json.dumps, found)) + "\n]" for name, found in cases.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
