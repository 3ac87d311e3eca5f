"""What is said of the machines of generators and gateways."""

import os

import pytest

from evaluator.load.machine_remarks import machine_remarks
from evaluator.machine.machine_conditions import MachineConditions
from tests.support.load_points import CLEAN

CONDITIONS = MachineConditions.model_validate(CLEAN | {"cores": 6})
HERE, ELSEWHERE = "http://127.0.0.1:8000/v1/collections/shop/search", "http://192.0.2.1:8000"


@pytest.mark.parametrize(
    ("loading", "who"), [(False, "the generators share"), (True, "the generators and the loading evaluator share")]
)
def test_a_gateway_of_this_machine_shares_its_cores_with_the_generators(loading: bool, who: str) -> None:
    said = f"{who} the 6 cores of this machine with the system under test"
    assert list(machine_remarks([HERE], [CONDITIONS], loading=loading)) == [said]


def test_the_shared_cores_are_told_of_a_search_without_a_point_too() -> None:
    said = f"the generators share the {os.cpu_count()} cores of this machine with the system under test"
    assert list(machine_remarks([HERE], [])) == [said]


def test_the_conditions_of_a_gateway_on_another_machine_are_said_to_be_unchecked() -> None:
    said = "192.0.2.1:8000 is no address of this machine: foreign CPU, steal and throttling of the gateway's machine"
    (remark,) = machine_remarks([ELSEWHERE], [CONDITIONS])
    assert remark == f"{said} were not checked"
    both = list(machine_remarks([HERE, ELSEWHERE], [CONDITIONS]))
    assert both[1:] == [remark]
