"""Writes the consensus of a session as qrels, which `--judgments FILE` and other tools read, and what made it."""

from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from evaluator.errors import EvaluationError
from evaluator.judging.consensus import RULE, consensus_grades, disputed_pairs
from evaluator.judging.session import JudgingSession
from evaluator.judging.session_files import PoolSource
from services.contracts.base import Count, Wire
from services.files.disk_writes import write_whole
from services.files.regular_file import read_regular


class JudgmentsExport(Wire):
    """`FILE.json` beside an exported FILE: qrels have no comments. Within a version, fields are only added."""

    schema_version: Literal[1] = 1
    qrels_sha256: str
    session: str
    dataset: str
    split: str
    sources: tuple[PoolSource, ...]
    top: Count
    seed: Count
    rule: str  # how one grade is made of several
    judges: dict[str, Count]  # graded pairs by judge
    pairs: Count  # of the pool
    judged: Count  # of them; lines of the file
    by_several: Count  # of `judged`, graded by more than one judge
    disputed: Count  # of `by_several`, with different grades


def export_judgments(session: JudgingSession, path: Path) -> JudgmentsExport:
    """Writes one line a judged pair: `query-id corpus-id score` under that header for `.tsv`, else TREC's four columns.

    Fields are separated by tabs, so ids may have spaces. A file that is there is replaced only where it is an earlier
    export. Raises EvaluationError for any other, for a suffix that means another format, and without a judgment.
    """
    if path.suffix in (".json", ".jsonl", ".gz"):
        raise EvaluationError(f"{path}: qrels are written as text; name it .qrels (TREC) or .tsv (BEIR)")
    if path.exists() and not _is_export(_beside(path)):
        raise EvaluationError(f"{path}: is there already and no export of judgments; name another file, or remove it")
    text, made = _export(session, beir=path.suffix == ".tsv")
    _write(path, text, made)
    return made


def export_by_content(session: JudgingSession) -> Path:
    """Writes the export into the session's folder, as judgments-<sha256>.qrels: later ones leave it as it is.

    A report names its files, and is made again from them. Raises EvaluationError without a judgment.
    """
    text, made = _export(session, beir=False)
    path = session.folder / f"judgments-{made.qrels_sha256[:12]}.qrels"
    _write(path, text, made)
    return path


def _export(session: JudgingSession, beir: bool) -> tuple[str, JudgmentsExport]:
    judges = session.grades()
    grades = consensus_grades(judges)
    if not grades:
        raise EvaluationError(f"{session.folder}: nobody has graded a pair; `judge grade` does")
    lines = ["query-id\tcorpus-id\tscore\n"] if beir else []
    for pair in sorted(grades):
        between = "" if beir else "0\t"
        lines.append(f"{pair.query}\t{between}{pair.document}\t{grades[pair]}\n")
    text, file = "".join(lines), session.file
    return text, JudgmentsExport(
        qrels_sha256=sha256(text.encode()).hexdigest(),
        session=str(session.folder.resolve()),
        dataset=file.dataset,
        split=file.split,
        sources=file.sources,
        top=file.top,
        seed=file.seed,
        rule=RULE,
        judges={judge: len(of_judge) for judge, of_judge in judges.items()},
        pairs=len(session.pairs),
        judged=len(grades),
        by_several=sum(sum(pair in of_judge for of_judge in judges.values()) > 1 for pair in grades),
        disputed=len(disputed_pairs(judges)),
    )


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _write(path: Path, text: str, made: JudgmentsExport) -> None:
    # In this order: qrels alone, as a kill between the two would leave them, are no export and would not be replaced.
    write_whole(_beside(path), made.model_dump_json(indent=2) + "\n")
    write_whole(path, text, newline="\n")


def _is_export(path: Path) -> bool:
    try:
        JudgmentsExport.from_record(read_regular(path))
    except (OSError, ValidationError):
        return False
    return True
