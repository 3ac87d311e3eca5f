"""Makes a run of two pipelines over a collection whose texts hold a script and a separator of cells."""

from pathlib import Path

from evaluator.evaluation import quality_step
from evaluator.report.step import report_step
from evaluator.steps.run_import import import_runs
from tests.support.simulated_runs import write_collection, write_three_rankings

HOSTILE = "<script>alert(1)</script>"
QUERIES = 6


def write_run(folder: Path) -> Path:
    """Writes a folder of runs with one run of two pipelines. One document's title and one query hold a script.

    The text of f1 has a `|`, which separates the cells of Markdown.
    """
    shop = write_collection(folder / "shop", QUERIES)
    corpus, queries = shop / "corpus.jsonl", shop / "queries.jsonl"
    texts = corpus.read_text().replace('"_id": "f0", "title": ""', f'"_id": "f0", "title": "{HOSTILE}"')
    corpus.write_text(texts.replace('"filler 1"', '"filler | 1"'))
    queries.write_text(queries.read_text().replace("question 0", f"{HOSTILE} question 0"))
    files = write_three_rankings(folder)
    run = import_runs(
        folder / "runs", {"bad": files["bad"], "good": files["good"]}, shop, split="test", name=None, depth=10
    )
    quality_step(run)
    report_step(run)
    return folder / "runs"
