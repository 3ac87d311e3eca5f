"""Measures one core: `python -m workshop.bench.sgemm` prints GFLOP per CPU second of fp32 matrix products.

Runs in its own process, because numpy's BLAS reads its number of threads when it is loaded.
"""

import os
import subprocess
import sys
import time

from services.inference.profiles import ROOT

SIZE = 1024
SECONDS = 0.5


def measure_gflops() -> float:
    """Returns GFLOP per CPU second of one thread, measured in a process of its own; takes about a second."""
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        env=os.environ | one_thread,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> None:
    """Multiplies for SECONDS after one warm-up product, and prints the rate."""
    import numpy as np

    left, right = np.random.default_rng(0).standard_normal((2, SIZE, SIZE), dtype=np.float32)
    out = left @ right
    products, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        np.matmul(left, right, out=out)
        products += 1
    sys.stdout.write(f"{products * 2 * SIZE**3 / (time.process_time() - start) / 1e9}\n")


if __name__ == "__main__":
    main()
