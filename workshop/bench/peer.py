"""Runs one peer as a long-lived process: reads lists as JSON lines, writes scores and their cost.

It runs in the peers' own environment (peers.txt), so it imports nothing of this repository. `serve` knows no peer; the
functions below it open one each, with the library's defaults except where scores must be comparable: the same files,
at most `max_tokens` tokens a pair, raw logits.

In:  {"lists": [{"query": "...", "passages": ["...", ...]}, ...]}
Out: first {"about": {...}} or {"refused": "sentence"}; then a line per line in:
     {"scores": [[...], ...], "cpu_s": [...], "wall_s": [...]}, one entry a list; CPU seconds of all threads.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

Score = Callable[[str, Sequence[str]], Sequence[float]]
# Called with a query and its passages off the clock; returns the call that is timed.
Prepare = Callable[[str, Sequence[str]], Callable[[], Sequence[float]]]


def whole(score: Score) -> Prepare:
    """Returns a Prepare that times all of `score`, tokenising included."""
    return lambda query, passages: partial(score, query, passages)


def serve(open_scorer: Callable[[], tuple[Prepare, dict[str, str]]]) -> None:
    """Answers until standard input ends. Sends the libraries' own prints to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        prepare, about = open_scorer()
    except Exception as error:  # any reason why a peer cannot open the model belongs into the report
        answers.write(json.dumps({"refused": f"{type(error).__name__}: {' '.join(str(error).split())}"}) + "\n")
        answers.flush()
        return
    answers.write(json.dumps({"about": about}) + "\n")
    answers.flush()
    for line in sys.stdin:
        scores, cpu_s, wall_s = [], [], []
        for candidates in json.loads(line)["lists"]:
            score = prepare(candidates["query"], candidates["passages"])
            cpu, wall = used_cpu_s(), time.perf_counter()
            answer = score()
            wall_s.append(time.perf_counter() - wall)
            cpu_s.append(used_cpu_s() - cpu)
            scores.append([float(each) for each in answer])
        answers.write(json.dumps({"scores": scores, "cpu_s": cpu_s, "wall_s": wall_s}) + "\n")
        answers.flush()


def used_cpu_s() -> float:
    """Returns CPU seconds of this process with all threads, and of its ended children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def sentence_transformers(backend: str, folder: str, max_tokens: int) -> tuple[Prepare, dict[str, str]]:
    """Opens CrossEncoder; `max_length` is its token limit. An identity replaces its sigmoid."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # only in the peers' environment
    from sentence_transformers import CrossEncoder  # type: ignore[import-not-found,unused-ignore]  # as above

    # Without the two, optimum looks for other files and other providers than the ones given.
    chosen = {"file_name": "model.onnx", "provider": "CPUExecutionProvider"} if backend == "onnx" else {}
    model = CrossEncoder(
        folder, backend=backend, device="cpu", max_length=max_tokens, model_kwargs=chosen, local_files_only=True
    )
    raw = torch.nn.Identity()

    def score(query: str, passages: Sequence[str]) -> Sequence[float]:
        pairs = [(query, passage) for passage in passages]
        return list(model.predict(pairs, activation_fn=raw, show_progress_bar=False))

    versions = _versions("sentence-transformers", "transformers", "torch", *(["optimum-onnx"] if chosen else []))
    return whole(score), {"max_tokens": "CrossEncoder(max_length=)", "threads": _torch_threads(backend), **versions}


def fastembed(folder: str, max_tokens: int) -> tuple[Prepare, dict[str, str]]:
    """Opens TextCrossEncoder on a custom model; its token limit is `model_max_length` of tokenizer_config.json."""
    from fastembed.common.model_description import (  # type: ignore[import-not-found,unused-ignore]  # as above
        ModelSource,
    )
    from fastembed.rerank.cross_encoder import TextCrossEncoder  # type: ignore[import-not-found,unused-ignore]

    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as file:
        if json.load(file)["model_max_length"] != max_tokens:
            raise ValueError(f"{folder} was laid out for another number of tokens than {max_tokens}")
    name = "bench/plain"
    TextCrossEncoder.add_custom_model(name, sources=ModelSource(hf=name), model_file="model.onnx")
    model = TextCrossEncoder(name, specific_model_path=folder)

    def score(query: str, passages: Sequence[str]) -> Sequence[float]:
        return list(model.rerank(query, passages))

    about = {"max_tokens": "tokenizer_config.json model_max_length", "threads": "ONNX Runtime's default, all cores"}
    return whole(score), {**about, **_versions("fastembed")}


def flashrank(folder: str, max_tokens: int) -> tuple[Prepare, dict[str, str]]:
    """Opens Ranker on a folder of its cache. It always applies a sigmoid; a wrapped session keeps the logits."""
    from flashrank import Ranker, RerankRequest  # type: ignore[import-not-found,unused-ignore]  # as above
    from flashrank.Config import model_file_map  # type: ignore[import-not-found,unused-ignore]  # as above

    cache, name = os.path.split(folder)
    model_file_map[name] = "model.onnx"  # it opens only names of this table
    ranker = Ranker(model_name=name, cache_dir=cache, max_length=max_tokens)
    run = ranker.session.run
    logits: list[Sequence[float]] = []

    class LogitRecorder:
        """Wraps the session and keeps the logits of the last call, in passage order, before the sigmoid."""

        def run(self, names: object, feed: object) -> object:
            outputs = run(names, feed)
            logits[:] = [outputs[0][:, 0]]
            return outputs

    ranker.session = LogitRecorder()

    def score(query: str, passages: Sequence[str]) -> Sequence[float]:
        ranker.rerank(RerankRequest(query=query, passages=[{"text": passage} for passage in passages]))
        return logits[0]

    about = {"max_tokens": "Ranker(max_length=)", "threads": "ONNX Runtime's default, all cores"}
    return whole(score), {**about, **_versions("flashrank")}


def _torch_threads(backend: str) -> str:
    if backend == "onnx":
        return "ONNX Runtime's default, all cores"
    import torch  # type: ignore[import-not-found,unused-ignore]  # as above

    return f"torch's default, {torch.get_num_threads()}"


def _versions(*names: str) -> dict[str, str]:
    return {name: version(name) for name in (*names, "onnxruntime", "tokenizers")}


def main() -> None:
    """`python peer.py PEER FOLDER MAX_TOKENS`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("folder")
    parser.add_argument("max_tokens", type=int)
    arguments = parser.parse_args()

    def opened() -> tuple[Prepare, dict[str, str]]:
        match arguments.peer:
            case "fastembed":
                return fastembed(arguments.folder, arguments.max_tokens)
            case "flashrank":
                return flashrank(arguments.folder, arguments.max_tokens)
            case "sentence-transformers-onnx" | "sentence-transformers-torch":
                return sentence_transformers(arguments.peer.rpartition("-")[2], arguments.folder, arguments.max_tokens)
            case name:
                raise ValueError(f"no peer is called {name}")

    serve(opened)


if __name__ == "__main__":
    main()
