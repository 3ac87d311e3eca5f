"""`make bench-gpu`: compares models on an NVIDIA GPU with the CPU beside it, and writes docs/measurements/gpu.md.

Exit status 1 without a GPU, or when a model fails, differs from the CPU, or leaves work on its tokens to the CPU.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from evaluator.machine.environment_record import collect_environment
from services.inference.glibc_memory import set_process_options
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.prepared_graphs import Provider, verified_graph
from services.inference.profiles import MODELS_FILE, ROOT, ModelError, ModelProfile, load_profile
from services.inference.session import Float32, open_session
from services.inference.sparse_encoder import SparseTextEncoder, TermLimits
from services.inference.text_encoder import TextEncoder
from services.inference.token_encoder import TokenEncoder
from services.storage.representation import SparseVector
from workshop.bench.table import aligned

NAMES = ("minilm-l6-ce-v4", "all-MiniLM-L6-v2", "bge-small-en-v1.5", "bge-small-en-v1.5-tokens", "splade-tiny-msmarco")
# The default, one with a thread per core, and other sizes; the last may need more memory than there is.
ENGINES = [Engine("cuda", *other) for other in ((), (Engine().workers,), (None, 512), (None, 4_096), (None, 65_536))]
COMPARED, MOST_DIFFERENCE, TERMS, LEAST_PASSES, LEAST_S, PROFILED = 100, 1e-3, 65_536, 3, 2.0, (16, 128)
Encode = Callable[[Sequence[str]], Awaitable[Iterable[float | Float32 | SparseVector]]]
OPENED: Mapping[str, Callable[..., Encode]] = {
    "cross-encoder": lambda *model: partial(PairScorer(*model).score, "why does my chain slip"),
    "encoder": lambda *model: TextEncoder(*model).encode_passages,
    "token-encoder": lambda *model: TokenEncoder(*model).encode_passages,
    # All terms: a limit would keep others where two weigh nearly the same.
    "sparse-encoder": lambda *model: partial(SparseTextEncoder, limits=TermLimits(TERMS))(*model).encode_passages,
}


def bench(names: Sequence[str], engines: Sequence[Engine], texts: Sequence[str]) -> tuple[str, list[str]]:
    """Returns a table of nodes with `engines[0]`, one of CPU and `engines`, and what is wrong. Raises ModelError."""
    profiles, expected = [load_profile(MODELS_FILE, name) for name in names], dict[str, Float32]()
    nodes, wrong = [["model", "time of nodes on CUDA", "other nodes"]], list[str]()
    rows = [["model", "on", "padded tokens", "threads", "texts/s", "GPU MiB", "RSS MiB", "largest difference"]]
    for profile in profiles:
        share, others, heavy = place_nodes(profile, Path(".models", profile.name), engines[0].provider)
        nodes.append([profile.name, f"{share:.1%}", others])
        wrong += [f"{profile.name} leaves work on its tokens to the CPU: {heavy}."] * bool(heavy)
    unrefused = [replace(engine, max_pending=len(texts)) for engine in (Engine(), *engines)]
    for profile, engine in product(profiles, unrefused):
        try:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # so that all memory is this model's
                cells, values = pool.submit(measure, profile, engine, texts, LEAST_S).result()
        except (ModelError, BrokenExecutor) as error:
            wrong.append(f"{profile.name} failed with {engine}: {error}")
            continue
        difference = float(np.abs(values - expected.setdefault(profile.name, values)).max())
        rows.append([profile.name, engine.provider, *cells, f"{difference:.0e}"])
        wrong += [f"{profile.name} differs with {engine} by {difference:.1e}."] * (not difference < MOST_DIFFERENCE)
    return f"{aligned(nodes)}\n\n{aligned(rows)}", wrong


def place_nodes(profile: ModelProfile, folder: Path, provider: Provider) -> tuple[float, str, str]:
    """Profiles a second run: the share of time on CUDA, the other nodes, those giving over 8 bytes a token (an id)."""
    with TemporaryDirectory() as directory:
        graph = verified_graph(profile, folder, provider)
        session = open_session(graph, profile.session_entries, provider, f"{directory}/times")
        for _ in range(2):
            session.run(None, {value.name: np.ones(PROFILED, np.int64) for value in session.get_inputs()})
        events = json.loads(Path(session.end_profiling()).read_bytes())
    nodes = [event["args"] | {"us": event["dur"]} for event in events if event["cat"] == "Node"]
    others = [node for node in nodes[len(nodes) // 2 :] if node["provider"] != "CUDAExecutionProvider"]
    share = 1 - sum(node["us"] for node in others) / sum(node["us"] for node in nodes[len(nodes) // 2 :])
    kinds = Counter(node["op_name"] for node in others)
    heavy = {node["op_name"] for node in others if int(node["output_size"]) > 8 * np.prod(PROFILED)}
    return share, ", ".join(f"{count} {kind}" for kind, count in kinds.items()), ", ".join(sorted(heavy))


def measure(profile: ModelProfile, engine: Engine, texts: Sequence[str], least_s: float) -> tuple[list[str], Float32]:
    """Runs two requests at once, pass after pass: cells of a row, and the values of the first COMPARED texts."""
    set_process_options()  # as the services do
    unused, runner = _gpu_mib(engine), asyncio.Runner()
    encode = OPENED[profile.kind](profile, Path(".models", profile.name), engine)

    async def run(*requests: Sequence[str]) -> list[Iterable[float | Float32 | SparseVector]]:
        return await asyncio.gather(*map(encode, requests))

    (values,), speeds = runner.run(run(texts[:COMPARED])), list[float]()
    while len(speeds) <= LEAST_PASSES or sum(len(texts) / speed for speed in speeds[1:]) < least_s:
        started = time.perf_counter()
        runner.run(run(texts[::2], texts[1::2]))
        speeds.append(len(texts) / (time.perf_counter() - started))
    del speeds[0]  # memory grew meanwhile
    peak = Path("/proc/self/status").read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]
    speed = f"{np.median(speeds):.0f} [{min(speeds):.0f}, {max(speeds):.0f}]"
    memory = f"{_gpu_mib(engine) - unused}", f"{int(peak) // 1_024}"
    dense = [np.bincount(v.terms, v.weights, TERMS) if isinstance(v, SparseVector) else np.ravel(v) for v in values]
    return [f"{engine.batch_tokens}", f"{engine.workers}", speed, *memory], np.concatenate(dense, dtype=np.float32)


def _gpu_mib(engine: Engine) -> int:
    asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(map(int, subprocess.check_output(asked).split())) if engine.provider == "cuda" else 0


def main() -> None:
    """Measures the models that the command line names, or NAMES."""
    made, random = collect_environment(("onnxruntime-gpu", "numpy")), np.random.default_rng(0)
    corpus = ROOT / "evaluator" / "collections" / "bicycle-workshop" / "corpus.jsonl"
    words = np.array(corpus.read_text("utf-8").split())
    texts = [" ".join(random.choice(words, size)) for size in random.lognormal(4.0, 0.8, 2_000).astype(int) + 1]
    try:
        tables, wrong = bench(sys.argv[1:] or NAMES, ENGINES, texts)
    except ModelError as error:
        sys.exit(f"bench-gpu: {error}")
    about = f"`make bench-gpu`: {made.machine.in_words}; {made.packages}; commit {made.git_commit}"
    page = "\n\n".join(["# Models on an NVIDIA GPU", about, tables, *wrong]) + "\n"
    (ROOT / "docs" / "measurements" / "gpu.md").write_text(page, encoding="utf-8")
    sys.stdout.write(page)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
