"""Every metric that trec_eval has equals it on the exported run file; ranx equals our closed forms."""

from pathlib import Path

import pytest
import pytrec_eval

from evaluator.metrics.metric_table import FAMILIES, parse_metric
from evaluator.metrics.quality import judgments_by_query, means, measure
from evaluator.runs.trec_runs import read_run, run_lines
from tests.support.rankings import Judgments, adversarial_cases, random_cases

KNOWN_TO_TREC_EVAL = [form for form, family in FAMILIES.items() if family.trec_eval]
CASES = {
    **{f"random {number}": case for number, case in enumerate(random_cases())},
    **{
        what: (judgments, {query: [name for name, _ in hits] for query, hits in scored.items()})
        for what, (judgments, scored) in adversarial_cases().items()
    },
}


@pytest.mark.parametrize("what", CASES)
def test_figures_equal_those_of_trec_eval_on_the_exported_run_file(what: str, tmp_path: Path) -> None:
    judgments, rankings = CASES[what]
    path = tmp_path / "arm.trec"
    path.write_text("".join(run_lines(query, ranking, "arm") for query, ranking in rankings.items()))
    metrics = [form.replace("@k", f"@{k}") for form in KNOWN_TO_TREC_EVAL for k in (1, 3, 10, 100)]
    ours = measure(judgments, read_run(path), list(judgments), metrics)
    for metric in metrics:
        theirs = trec_eval(judgments, path, metric)
        assert ours[metric] == pytest.approx(theirs, abs=1e-6), metric
        assert means(ours)[metric] == pytest.approx(sum(theirs.values()) / len(judgments), abs=5e-5)


def trec_eval(judgments: Judgments, path: Path, metric: str) -> dict[str, float]:
    """Returns trec_eval's figure by judged query; 0 for queries that the run lacks (its option -c)."""
    parsed = parse_metric(metric)
    *options, measure_name = str(parsed.family.trec_eval).format(parsed.number).split()
    if options:  # -M k cuts the run
        lines = [line for line in path.read_text().splitlines(True) if int(line.split("\t")[3]) <= int(options[1])]
        path = path.with_suffix(".cut")
        path.write_text("".join(lines))
    with path.open() as file:
        run = pytrec_eval.parse_run(file)
    found = pytrec_eval.RelevanceEvaluator(judgments, {measure_name}).evaluate(run)
    return {query: found.get(query, {}).get(measure_name.replace(".", "_"), 0.0) for query in judgments}


@pytest.mark.parametrize("what", CASES)
def test_ranx_equals_the_closed_form_where_no_documents_tie(what: str) -> None:
    judgments, rankings = CASES[what]
    queries = list(judgments)
    judged = judgments_by_query(judgments, queries)
    by_ranx = [form for form, family in FAMILIES.items() if family.ranx]
    metrics = [form.replace("@k", f"@{k}") for form in by_ranx for k in (1, 3, 10, 100)]
    figures = measure(judgments, rankings, queries, metrics)
    for name in metrics:
        metric = parse_metric(name)
        for query in queries:
            alone = [(document,) for document in rankings.get(query, ())]
            expected = metric.family.formula(judged[query], alone, metric.number)
            assert figures[name][query] == pytest.approx(expected, abs=1e-12), (name, query)
