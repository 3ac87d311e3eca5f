"""Tests that a generator asks for real-time priority, and tells whether it has it."""

import os
import subprocess
import sys

IMPORTS = "import os, resource; from evaluator.load.real_time import take_real_time_priority"
ASKS = "print(take_real_time_priority(), os.sched_getscheduler(0) == os.SCHED_RR)"


def test_the_answer_is_what_the_kernel_says() -> None:
    assert told(IMPORTS, ASKS) in (["True", "True"], ["False", "False"])


def test_a_process_that_may_not_have_it_is_told_so() -> None:
    may_not = [
        "resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))",
        *(["os.setuid(65534)"] if os.geteuid() == 0 else []),
    ]
    assert told(IMPORTS, *may_not, ASKS) == ["False", "False"]


def told(*lines: str) -> list[str]:
    """Runs lines in a process of their own, which keeps the priority to its end; returns the words that it prints."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stdout.split()
