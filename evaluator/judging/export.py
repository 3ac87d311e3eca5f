"""Writes the grades of a session as qrels, which `--judgments FILE` and other tools read, and what made them."""

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from evaluator.errors import EvaluationError, command_line
from evaluator.judging.pool import RULE
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
    tied: Count = 0  # of `by_several`, those of which equally many judges gave different grades


def export_judgments(session: JudgingSession, path: Path) -> JudgmentsExport:
    """Writes one line a judged pair: `query-id corpus-id score` under that header for `.tsv`, else TREC's four columns.

    Fields are separated by tabs, so ids may have spaces. A file that is there is replaced only where it is an earlier
    export. Raises EvaluationError for any other, for a suffix that means another format, and without a judgment.
    """
    if path.suffix in (".json", ".jsonl", ".gz"):
        raise EvaluationError(f"{path}: qrels are written as text; name it .qrels (TREC) or .tsv (BEIR)")
    if path.exists() and not _is_export(_beside(path)):
        raise EvaluationError(f"{path}: is another file, not an export of judgments; name another one, or remove it")
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
    graded = session.graded()
    if not graded:
        raise EvaluationError(
            f"{session.folder}: nobody has graded a pair; `{command_line('serve')}` has the page /judge"
        )
    lines = ["query-id\tcorpus-id\tscore\n"] if beir else []
    between = "" if beir else "0\t"
    lines += [f"{made.pair.query}\t{between}{made.pair.document}\t{made.majority}\n" for made in graded]
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
        judges=dict(sorted(Counter(judge for pair in graded for judge in pair.by_judge).items())),
        pairs=len(session.pairs),
        judged=len(graded),
        by_several=sum(len(pair.by_judge) > 1 for pair in graded),
        tied=sum(pair.tied for pair in graded),
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
