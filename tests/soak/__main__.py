"""`python -m tests.soak [name …] [--seed N]`: soaks in full; each writes its page to docs/soak."""

import argparse
import asyncio
import importlib
import sys
import time
from pathlib import Path

from tests.soak.outcome import Outcome, page
from tests.soak.rehearsals import REHEARSALS, put_section
from tests.soak.rehearsals import run as rehearse
from tests.support.processes import ROOT

SOAKS = (
    "hostile",
    "faults",
    "kills",
    "overload",
    "keys",
    "agreement",
    "verdicts",
    "looks",
    "events",
    "alerts",
    "trace",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*SOAKS, *REHEARSALS, []], help="which; when none is named, all but rehearsals"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--elasticsearch", help="overload: the URL of one for the lexical service")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "soak", help="where the pages go")
    arguments = parser.parse_args()
    if arguments.elasticsearch and arguments.names != ["overload"]:
        parser.error("--elasticsearch belongs to the soak `overload` alone")
    held = True
    for name in arguments.names or SOAKS:
        print(f"{name}, seed {arguments.seed} ...", flush=True)
        started = time.monotonic()
        engine = {"elasticsearch": arguments.elasticsearch} if arguments.elasticsearch else {}
        outcome: Outcome = asyncio.run(
            rehearse(name, arguments.seed)
            if name in REHEARSALS
            else importlib.import_module(f"tests.soak.{name}").run(arguments.seed, **engine)
        )
        option = f" --elasticsearch {arguments.elasticsearch}" if engine else ""
        command = f".venv/bin/python -m tests.soak {name} --seed {arguments.seed}{option}"
        text = page(outcome, time.monotonic() - started, command)
        print(text, flush=True)
        arguments.to.mkdir(parents=True, exist_ok=True)
        if name in REHEARSALS:
            put_section(arguments.to / "rehearsals.md", text)
        else:
            (arguments.to / f"{outcome.name}.md").write_text(text, encoding="utf-8")
        held = held and outcome.held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
