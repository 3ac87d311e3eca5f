"""`make bench-rerank`: compares our re-ranker with other libraries on one graph and the same candidate lists.

Exit status 1 when a contender's scores differ from ours: its cost is then of other work, and its ratio is left out.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from services.inference.profiles import GRAPH, MODELS_FILE, ROOT, ModelError, load_cross_encoder
from services.reranker.settings import RerankerSettings
from workshop.bench.analysis import HTTP, OURS, SESSION, analyse
from workshop.bench.candidate_lists import ListSampling, list_statistics, make_lists
from workshop.bench.contender import ContenderError
from workshop.bench.contender_setup import PEER_NAMES, open_ours, open_peer
from workshop.bench.plain_model import make_plain_model, write_models_file
from workshop.bench.report import REPORT, BenchModel, BenchReport, bench_environment, write_report
from workshop.bench.rounds import RoundPlan, run_rounds
from workshop.bench.table import render_table


@dataclass(frozen=True, slots=True)
class BenchArguments:
    """Options of the command line, and the directories and files of a run."""

    model: str
    max_tokens: int | None
    served: str
    int8: str | None
    peers: Sequence[str]
    rounds: int
    drawing: ListSampling
    models: Path = ROOT / ".models"
    cache: Path = ROOT / ".cache" / "bench-rerank"
    output: Path = REPORT


def main() -> int:
    """Runs the bench, writes the report and prints its table; returns the exit status."""
    arguments = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that the contenders end as well
    try:
        report = bench(arguments)
    except (ContenderError, ModelError) as error:
        sys.stderr.write(f"bench-rerank: {error}\n")
        return 1
    write_report(report, arguments.output)
    sys.stdout.write(f"\n{render_table(report)}\n\n{arguments.output}\n")
    return 1 if report.unequal else 0


def bench(arguments: BenchArguments) -> BenchReport:
    """Makes the lists and the plain model, opens the contenders, runs the rounds. Raises ContenderError, ModelError."""
    begun = bench_environment()
    profile = load_cross_encoder(MODELS_FILE, arguments.model)
    plain = make_plain_model(
        profile, arguments.models / arguments.model, arguments.cache, arguments.max_tokens or profile.max_tokens
    )
    sets, left_out = make_lists(arguments.drawing, plain)
    no_int8 = why_no_int8(arguments.int8)
    int8 = None if no_int8 else arguments.int8
    # The served models get the token limit of all contenders, not their own.
    names = dict.fromkeys(name for name in (arguments.served, int8) if name is not None)
    served = [load_cross_encoder(MODELS_FILE, name) for name in names]
    limit = {"max_tokens": plain.profile.max_tokens}
    limited = write_models_file(
        arguments.cache / "served.yaml", *(profile.model_copy(update=limit) for profile in served)
    )
    log = arguments.cache / "contenders.log"
    with ExitStack() as stack:
        contenders = open_ours(plain, limited, arguments.models, arguments.served, int8, log)
        for contender in contenders.values():
            stack.callback(contender.close)
        for name in arguments.peers:
            try:
                contenders[name] = open_peer(name, plain, log)
            except ContenderError as error:
                left_out[name] = str(error)
            else:
                stack.callback(contenders[name].close)
        peers = [name for name in arguments.peers if name in contenders]
        plan = RoundPlan(arguments.rounds, sets, dict.fromkeys(peers, OURS) | {HTTP: SESSION}, arguments.drawing.seed)
        measured = run_rounds(plan, contenders)
        about = {name: dict(contender.about) for name, contender in contenders.items()}
    report = BenchReport(
        made=begun,
        model=BenchModel(
            name=arguments.model,
            sha256=plain.profile.files[GRAPH],
            source_sha256=plain.source_sha256,
            max_tokens=plain.profile.max_tokens,
        ),
        sets={name: list_statistics(lists, plain) for name, lists in sets.items()},
        left_out=left_out,
        contenders=about,
        largest_difference=dict(measured.differences),
        turns=measured.turns,
    )
    return analyse(report, arguments.served, int8, no_int8)


def why_no_int8(model: str | None) -> str | None:
    """Returns why there is no int8 ratio, or None. Raises ModelError when models.yaml lacks the model."""
    if model is None:
        return "no int8 model was named (--int8 MODEL)."
    precision = load_cross_encoder(MODELS_FILE, model).precision
    if precision in ("int8-static", "int8-dynamic"):
        return None
    return f"{model} does not compute in int8: models.yaml declares {precision}."


def _parsed() -> BenchArguments:
    parser = argparse.ArgumentParser(prog="bench-rerank")
    parser.add_argument("--model", default="minilm-l6-ce-v4", help="of models.yaml; made plain fp32 for all contenders")
    parser.add_argument("--max-tokens", type=int, help="of a pair, for all contenders; default: the model's own")
    parser.add_argument("--int8", metavar="MODEL", help="ours in int8, as a model of models.yaml")
    parser.add_argument("--served", default=RerankerSettings().model, metavar="MODEL")
    parser.add_argument("--peers", nargs="*", default=PEER_NAMES, choices=PEER_NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lists", type=int, default=3, help="of each set")
    parser.add_argument("--pairs", type=int, default=100, help="of each list")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=REPORT)
    given = vars(parser.parse_args())
    drawing = ListSampling(given.pop("lists"), given.pop("pairs"), given.pop("seed"))
    return BenchArguments(**given, drawing=drawing)


if __name__ == "__main__":
    sys.exit(main())
