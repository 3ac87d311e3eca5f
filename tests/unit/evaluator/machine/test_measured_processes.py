"""Which processes belong to a gateway, by its address."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from evaluator.machine.measured_processes import is_this_machine, measured_processes, record_stack

ELSEWHERE = "http://198.51.100.7:8000"  # an address for documentation (RFC 5737)


def own_address() -> str:
    """Returns the address from which this machine would send; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.7", 9))
        except OSError:
            pytest.skip("this machine has no address but the loopback one")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000", True),
        (ELSEWHERE, False),
        ("http://gateway.invalid", False),
    ],
)
def test_a_loopback_address_is_this_machine(url: str, here: bool) -> None:
    assert is_this_machine(url) == here


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_recorded_stack_is_found_by_an_own_address_of_the_machine(tmp_path: Path) -> None:
    record_stack(tmp_path, "http://127.0.0.1:8000", os.getpid())
    assert measured_processes(tmp_path, f"http://{own_address()}:8000") == (os.getpid(),)


def test_with_the_gateway_on_another_machine_all_but_the_evaluator_is_foreign(tmp_path: Path) -> None:
    assert measured_processes(tmp_path, ELSEWHERE, container_marks=()) == ()


def test_in_a_container_another_address_may_be_this_machine(tmp_path: Path) -> None:
    assert measured_processes(tmp_path, ELSEWHERE, container_marks=(tmp_path,)) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://gateway.invalid"])
def test_of_a_gateway_that_nobody_recorded_or_of_an_unknown_name_nothing_is_known(url: str, tmp_path: Path) -> None:
    assert measured_processes(tmp_path, url, container_marks=()) is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_servers_that_a_stack_uses_and_did_not_start_are_its_processes_until_one_of_them_ends(tmp_path: Path) -> None:
    gateway = "http://127.0.0.1:8000"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as engine:
        record_stack(tmp_path, gateway, os.getpid(), (engine.pid,))
        assert measured_processes(tmp_path, gateway) == (os.getpid(), engine.pid)
        engine.kill()
    assert measured_processes(tmp_path, gateway) is None
    record_stack(tmp_path / "ended", gateway, os.getpid(), (engine.pid,))
    assert not (tmp_path / "ended").exists()
