"""Says what a reader of a load should know of the machines of its generators and gateways."""

import os
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from evaluator.machine.machine_conditions import MachineConditions, unchecked_foreign
from evaluator.machine.measured_processes import is_this_machine


def machine_remarks(
    gateways: Sequence[str], conditions: Sequence[MachineConditions], *, loading: bool = False
) -> Iterator[str]:
    """Yields whose cores the generators share, and what was not checked.

    `conditions`: of every slice; none where a search for the capacity ended without a point. `loading`: whether the
    evaluator loaded a corpus meanwhile.
    """
    if any(is_this_machine(url) for url in gateways):
        cores = conditions[0].cores if conditions else os.cpu_count()
        loader = " and the loading evaluator" if loading else ""
        yield f"the generators{loader} share the {cores} cores of this machine with the system under test"
    for url in gateways:
        if not is_this_machine(url):
            yield (
                f"{urlsplit(url).netloc} is no address of this machine: foreign CPU, steal and throttling of the "
                "gateway's machine were not checked"
            )
    yield from unchecked_foreign(conditions)
