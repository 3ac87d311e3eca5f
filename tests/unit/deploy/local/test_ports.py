"""A start on free ports, one of which another program takes meanwhile."""

import json
from pathlib import Path

import pytest

from deploy.local.choices import choose
from deploy.local.ports import TRIES, PortTaken, on_free_ports
from deploy.local.problem import StackProblem
from deploy.local.readiness import wait_until_ready


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        ("[Errno 98] error while attempting to bind on address ('127.0.0.1', 45999): address already in use", True),
        ("DENSE_MODEL=gpt: there is no such model", False),
    ],
)
def test_a_port_that_another_program_took_is_told_from_what_a_second_start_does_not_mend(
    tmp_path: Path, message: str, taken: bool
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "supervisord.log").write_text("exited: dense (exit status 1; not expected)\n")
    (tmp_path / "logs" / "dense.log").write_text(json.dumps({"message": message}) + "\n")
    with pytest.raises(StackProblem) as problem:
        wait_until_ready(choose({}, tmp_path, own_ports=True), print)
    assert (isinstance(problem.value, PortTaken), message in str(problem.value)) == (taken, True)


def test_a_start_whose_port_was_taken_is_tried_again_on_others(tmp_path: Path) -> None:
    chosen: list[int] = []

    def start() -> int:
        chosen.append(choose({}, tmp_path, own_ports=True).ports["dense"])
        if len(chosen) < TRIES:
            raise PortTaken(f"The port of dense ({chosen[-1]}) is in use.")
        return chosen[-1]

    assert on_free_ports(start, print) == chosen[TRIES - 1]


def test_a_start_is_given_up_where_a_port_is_taken_every_time() -> None:
    said: list[str] = []

    def start() -> None:
        raise PortTaken("The port of dense is in use.")

    with pytest.raises(PortTaken):
        on_free_ports(start, said.append)
    assert len(said) == TRIES - 1
