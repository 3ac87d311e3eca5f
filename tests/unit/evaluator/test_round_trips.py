"""What the evaluator writes, it reads back: rankings, judgments, answers, candidates, whatever the ids are."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluator.attribution.candidates import ArmCandidates, QueryCandidates, read_candidates
from evaluator.commands.exchange import export_run
from evaluator.datasets.ids import plain_id
from evaluator.datasets.judgments import read_judgments
from evaluator.judging.export import export_judgments
from evaluator.judging.judgment_log import JudgmentLog
from evaluator.judging.new_session import create_session
from evaluator.judging.session import JudgingSession
from evaluator.judging.session_files import JUDGES
from evaluator.load.sending.samples import LoadSample, read_samples, write_samples
from evaluator.report.evaluation import quality_step
from evaluator.runs.answers import AnswerRecord, read_answers
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run, run_lines
from evaluator.steps.run_import import import_runs
from evaluator.steps.run_judgments import judgments_of

ODD = [
    "a b",
    "a%20b",
    "a%2520b",
    "#",
    "50%",
    "percent-encoded",
    "\u2028x\u2003y",
    "\U0001f6b2 bell",
    "Q0",
    'a"b',
    "score",
]
ids = st.one_of(
    st.sampled_from(ODD),
    # Any character that an id of a dataset may have; two thirds of them from those that formats give a meaning.
    st.text(
        st.one_of(
            st.sampled_from(" %#,;'\"\\\u00a0\u0085\u2028\u3000\ufeff20"),
            st.characters(codec="utf-8", exclude_characters="\t\r\n", exclude_categories=["Cc", "Cs"]),
        ),
        min_size=1,
        max_size=12,
    ),
).filter(lambda text: plain_id(text) == text)
collections = st.lists(ids, min_size=4, max_size=8, unique=True)


@contextmanager
def odd_run(names: Sequence[str]) -> Iterator[tuple[Path, RunFolder]]:
    """A dataset and a run over it. Each query has the id of a document; the next one is relevant, three are found."""
    with tempfile.TemporaryDirectory() as directory:
        dataset = Path(directory) / "odd"
        (dataset / "qrels").mkdir(parents=True)
        for name in ("corpus", "queries"):
            lines = (json.dumps({"_id": identity, "text": f"{name} {at}"}) for at, identity in enumerate(names))
            (dataset / f"{name}.jsonl").write_text("\n".join(lines))
        judgments = (
            json.dumps({"query-id": name, "corpus-id": names[at - step], "score": grade})
            for at, name in enumerate(names)
            for step, grade in ((1, 2), (2, 0))
        )
        (dataset / "qrels" / "test.jsonl").write_text("\n".join(judgments))
        rankings = {name: [names[at - step] for step in (2, 1, 3)] for at, name in enumerate(names)}
        run = Path(directory) / "arm.trec"
        text = "".join(run_lines(query, ranking, "arm") for query, ranking in rankings.items())
        run.write_text(text, encoding="utf-8", newline="")
        yield dataset, imported(Path(directory) / "runs", run, dataset)


def imported(runs: Path, run: Path, dataset: Path) -> RunFolder:
    return import_runs(runs, {"arm": run}, dataset, split="test", name=None, depth=None)


@settings(max_examples=10, deadline=None)
@given(collections)
@example(["a b", "a%20b", "a%2520b", "c"])
@example(["a%20b", "b", "c", "d"])
def test_an_exported_run_is_imported_with_the_rankings_and_judgments_that_it_had(names: list[str]) -> None:
    with odd_run(names) as (dataset, folder):
        exported = export_run(folder, folder.path / "export")
        again = imported(folder.runs, exported.runs[0], dataset)
        assert read_run(again.run_file("arm")) == read_run(folder.run_file("arm"))
        assert read_judgments(exported.qrels).grades == judgments_of(folder)
        figures = quality_step(folder, ["nDCG@10"]).arms
        assert quality_step(again, ["nDCG@10"]).arms == figures
        judged_too = quality_step(folder, ["nDCG@10"], [exported.qrels])
        assert judged_too.arms == figures
        assert judged_too.added_judgments is not None
        (file,) = judged_too.added_judgments.files
        assert (file.added, file.changed, file.not_in_corpus) == (0, 0, 0)


@settings(max_examples=10, deadline=None)
@given(collections)
@pytest.mark.parametrize("suffix", [".tsv", ".qrels"])
def test_what_judges_graded_is_read_as_judgments_of_the_same_documents(suffix: str, names: list[str]) -> None:
    with odd_run(names) as (_, folder):
        made = create_session([str(folder.path)], folder.runs, top=3, seed=1)
        pairs = JudgingSession(made.folder).pairs
        log = JudgmentLog(made.folder / JUDGES, "eva")
        for at, pair in enumerate(pairs):
            log.append(pair, at % 3)
        path = folder.runs / f"mine{suffix}"
        export_judgments(JudgingSession(made.folder), path)
        read = read_judgments(path).grades
        assert {(q, d): g for q, judged in read.items() for d, g in judged.items()} == {
            (pair.query, pair.document): at % 3 for at, pair in enumerate(pairs)
        }


@settings(deadline=None)
@given(ids, st.lists(ids, unique=True, max_size=4))
def test_lines_of_answers_requests_and_candidates_are_read_back(query: str, names: list[str]) -> None:
    ranking = tuple((document, float(-at)) for at, document in enumerate(names))
    answer = AnswerRecord(query=query, phase="measured", hits=len(ranking), ranking=ranking)
    sample = LoadSample(**dict(answer), number=0, pipeline="arm", planned_s=0.5, counted_ms=3.0)
    candidates = QueryCandidates(query=query, arms={"arm": ArmCandidates(hits=tuple(names))})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lines.jsonl"
        path.write_text(answer.line * 2, encoding="utf-8")
        assert list(read_answers(path)) == [answer, answer]
        write_samples(path, [sample])
        assert list(read_samples(path)) == [sample]
        path.write_text(candidates.model_dump_json() + "\n", encoding="utf-8")
        assert list(read_candidates(path)) == [candidates]
