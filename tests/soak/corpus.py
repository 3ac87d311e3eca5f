"""Reads and checks a generated collection of millions of short documents, and measures time and memory."""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.soak.outcome import Bar, Outcome
from tests.support.processes import ROOT

DOCUMENTS = 15_000_000
TEXT_BYTES = 50
QUERIES = 1_000
MOST_MIB = 1_024
SAYS = (
    f"A corpus of documents of {TEXT_BYTES} bytes, {QUERIES} queries with a judgment each. A process of its own reads "
    "and checks it, then recalls it as the next step of a run does. Memory is the peak of the process (VmHWM)."
)
# What the process does; prints a line of JSON.
READING = """
import json, os, sys, time
from pathlib import Path
from evaluator.datasets.reader import read_or_recall
from tests.support.vitals import peak_mib

def timed(record):
    began = time.perf_counter()
    dataset, record = read_or_recall(Path(sys.argv[1]), "test", strict=False, record=record)
    return dataset, record, time.perf_counter() - began

dataset, record, read_s = timed(None)
again, _, recalled_s = timed(record)
counts = dataset.counts.model_dump()
print(json.dumps(dict(counts=counts, read_s=read_s, recalled_s=recalled_s, same=again.counts == dataset.counts,
                      mib=peak_mib(os.getpid()))))
"""


async def run(seed: int, size: int = DOCUMENTS) -> Outcome:
    """Generates `size` documents and reads them."""
    return await asyncio.to_thread(_measure, seed, size)


def _measure(seed: int, size: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="soak-corpus-") as name:
        lacking = _write(Path(name), seed, size)
        done = subprocess.run(
            [sys.executable, "-c", READING, name], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
    read = json.loads(done.stdout)
    counts = read["counts"]
    bars = (
        Bar(f"at most {MOST_MIB:,} MiB", f"{read['mib']:.0f} MiB", read["mib"] <= MOST_MIB),
        Bar("every document counted", f"{counts['documents']:,}", counts["documents"] == size),
        Bar(
            "every judged document that the corpus lacks counted",
            f"{counts['judged_documents_missing']} of {lacking}",
            counts["judged_documents_missing"] == lacking,
        ),
        Bar("the next step recalls the same counts", f"in {read['recalled_s']:.2f} s", read["same"]),
    )
    rows = ((f"{size:,}", f"{read['read_s']:.1f}", f"{read['recalled_s']:.2f}", f"{read['mib']:.0f}"),)
    broken = tuple(f"{bar.promise}: {bar.measured}" for bar in bars if not bar.held)
    return Outcome("corpus", SAYS, seed, ("documents", "read s", "recalled s", "peak MiB"), rows, bars, broken)


def _write(directory: Path, seed: int, size: int) -> int:
    """Writes the collection; returns how many judged documents it lacks, 5 in 1,000."""
    dice = random.Random(seed)
    with (directory / "corpus.jsonl").open("w") as corpus:
        for number in range(size):
            text = f"{number:010d} stands here for the words of a text"
            corpus.write(f'{{"_id": "d{number}", "text": "{text[:TEXT_BYTES].ljust(TEXT_BYTES, "x")}"}}\n')
    (directory / "qrels").mkdir()
    lacking = 0
    with (directory / "queries.jsonl").open("w") as queries, (directory / "qrels" / "test.tsv").open("w") as qrels:
        for number in range(QUERIES):
            queries.write(json.dumps({"_id": f"q{number}", "text": f"words of text {number}"}) + "\n")
            missing = number % 200 == 199
            lacking += missing
            qrels.write(f"q{number}\t{'m' if missing else 'd'}{number if missing else dice.randrange(size)}\t1\n")
    return lacking
