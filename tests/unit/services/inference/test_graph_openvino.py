"""Checks that a process handles signals after OpenVINO models are closed. Only a CPU with AMX shows the defect."""

import subprocess
import sys
from pathlib import Path

from deploy.local.choices import ROOT

# Opens two models, closes them in the same order, then raises the first signal of this process.
CHILD = """
import ctypes, gc, signal, sys
from pathlib import Path
from services.inference.graph import Runtime
from services.inference.session import Session
from services.inference.graph_openvino import SignalStack
from tests.support.models import ids_as_hidden, tiny_encoder

def stack():
    now = SignalStack()
    ctypes.CDLL(None).sigaltstack(None, ctypes.byref(now))
    return now.base, now.flags, now.size

folder = Path(sys.argv[1])
profile = tiny_encoder(folder, ids_as_hidden())
before = stack()
first, second = (Session(profile, folder, Runtime("openvino")) for _ in range(2))
assert stack() == before, (before, stack())
del first
gc.collect()
del second
gc.collect()
assert stack() == before, (before, stack())
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
signal.raise_signal(signal.SIGUSR1)
"""


def test_the_signal_stack_is_as_before_while_models_are_open_and_after_they_are_closed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CHILD, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr
