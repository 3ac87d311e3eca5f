"""Reads judgments that are added to those of a set, so that documents nobody had judged count (BEIR paper, table 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import IdHashes
from evaluator.datasets.judgments import expect_header, read_judgments
from evaluator.errors import EvaluationError, WrongOption
from evaluator.quality import Grades


@dataclass(frozen=True, slots=True)
class AddedJudgments:
    """The judgments of a set with those of a file, which take the place of the set's own where both have one."""

    file: Path
    sha256: str
    grades: Grades
    added: int  # of the measured queries, for documents without a judgment before
    changed: int  # other grades than the set has
    other_queries: int  # queries of the file that were not measured: ignored


def judgment_files(words: Sequence[str], sets: Sequence[str]) -> dict[str, Path]:
    """Returns the files by set: `SET=FILE`, or FILE where there is one set. Raises WrongOption."""
    files: dict[str, Path] = {}
    for word in words:
        name, given, path = word.partition("=")
        if not given or Path(word).exists():
            if len(sets) != 1:
                raise WrongOption(
                    f"--judgments {word}: query ids of two sets may be the same; say of which set it is: "
                    f"{sets[0]}={word} (there are {', '.join(sets)})"
                )
            name, path = sets[0], word
        if name not in sets:
            raise WrongOption(f"--judgments {word}: no set {name!r} in these runs; there are {', '.join(sets)}")
        if name in files:
            raise WrongOption(f"--judgments {word}: a second file for {name}; put the judgments into one")
        files[name] = Path(path)
    return files


def add_judgments(file: Path, own: Grades, queries: Sequence[str], all_queries: Mapping[str, str]) -> AddedJudgments:
    """Reads BEIR or TREC judgments (or JSON) and adds them to a set's own.

    `queries`: the measured ones; `all_queries`: texts by id, of the set. Raises EvaluationError where the file judges
    no measured query: it is of another set.
    """
    if not file.is_file():
        raise WrongOption(f"--judgments {file}: no such file")
    read = read_judgments(file)
    expect_header(read, all_queries, IdHashes())
    measured = set(queries)
    given = {query: grades for query, grades in read.grades.items() if query in measured}
    if not given:
        raise EvaluationError(f"{file}: it judges no query that was measured; is it of another set?")
    merged = {query: {**own.get(query, {}), **given.get(query, {})} for query in {**own, **given}}
    both = [
        (own.get(query, {}).get(document), grade)
        for query, grades in given.items()
        for document, grade in grades.items()
    ]
    return AddedJudgments(
        file=file,
        sha256=read.sha256,
        grades=merged,
        added=sum(before is None for before, _ in both),
        changed=sum(before is not None and before != grade for before, grade in both),
        other_queries=len(read.grades.keys() - measured),
    )
