"""`python -m tests.soak [name …] [--seed N]`: soaks in full; each writes its page to docs/soak."""

import argparse
import asyncio
import importlib
import inspect
import sys
import time
from pathlib import Path

from tests.soak.outcome import Outcome, page
from tests.support.processes import ROOT

SOAKS = (
    "shapes",
    "hostile",
    "stalled",
    "faults",
    "replicas",
    "kills",
    "killed_ranks",
    "cancellations",
    "cost",
    "overload",
    "keys",
    "pages",
    "timings",
    "load",
    "power",
    "corpus",
    "agreement",
    "against_live",
    "judging",
)


async def soaked(name: str, seed: int, size: int | None, options: dict[str, Path | int | str]) -> Outcome:
    """Runs one soak in full, or at `size`; passes on the `options` that it has as parameters."""
    run = importlib.import_module(f"tests.soak.{name}").run
    taken = {key: value for key, value in options.items() if key in inspect.signature(run).parameters}
    outcome = await (run(seed, **taken) if size is None else run(seed, size, **taken))
    assert isinstance(outcome, Outcome)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SOAKS, []], help="which; all when none is named")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--size", type=int, help="cases in place of the full number; no page is written")
    parser.add_argument("--root", type=Path, help="the checkout whose services run, in place of this one")
    parser.add_argument("--against", type=Path, help="cost: the checkout to compare with")
    parser.add_argument("--hold", type=int, help="overload: seconds at twice what is carried; give --size too")
    parser.add_argument("--elasticsearch", help="overload: the URL of one for the lexical service")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "soak", help="where the pages go")
    asked = parser.parse_args()
    options: dict[str, Path | int | str] = {
        key: value.resolve() for key in ("root", "against") if (value := getattr(asked, key)) is not None
    }
    options |= {key: value for key in ("hold", "elasticsearch") if (value := getattr(asked, key)) is not None}
    held = True
    for name in asked.names or SOAKS:
        print(f"{name}, seed {asked.seed} ...", flush=True)
        started = time.monotonic()
        outcome = asyncio.run(soaked(name, asked.seed, asked.size, options))
        sized = "".join(
            f" --{one} {value}"
            for one in ("size", "hold", "elasticsearch")
            if (value := getattr(asked, one)) is not None
        )
        command = f".venv/bin/python -m tests.soak {name} --seed {asked.seed}{sized}"
        text = page(outcome, (asked.root or ROOT).resolve(), time.monotonic() - started, command)
        print(text, flush=True)
        if asked.size is None:
            asked.to.mkdir(parents=True, exist_ok=True)
            (asked.to / f"{outcome.name}.md").write_text(text, encoding="utf-8")
        held = held and outcome.held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
