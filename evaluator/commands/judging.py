"""Commands of judging: make a pool, grade its pairs, look how far judges are, export qrels."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_args

import typer

from evaluator.commands.options import RUNS, AddedFiles, Runs, collection_directory, reporting_errors
from evaluator.errors import WrongOption, command_line
from evaluator.judging.export import export_judgments
from evaluator.judging.new_session import create_session
from evaluator.judging.session import JudgingSession, Order, ShownPair
from evaluator.pages.markdown_table import aligned
from evaluator.progress import say, show

judge = typer.Typer(no_args_is_help=True, help="Judges the documents that runs found and nobody has judged.")

KEYS = {"s": "skip", "u": "undo", "q": "quit"}
MOST_TIED = 20  # that `show` prints

Session = Annotated[Path, typer.Argument(help="The folder of the session.")]


@judge.command()
def pool(
    names: Annotated[
        list[str], typer.Argument(help="Each a run folder, RUN:PIPELINE or a TREC run file ([NAME=]FILE).")
    ],
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many hits of each ranking are pooled.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order.")] = 20_250_601,
    session: Annotated[
        Path | None, typer.Option(help="The folder to make; without it, judging/<utc>-<dataset> in the runs folder.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The collection of run files: a directory or a set of the catalogue.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which judgments of --dataset; without it, test.")] = None,
    judgments: AddedFiles = None,
    runs: Runs = RUNS,
) -> None:
    """Pools the unjudged documents of pipelines in a folder that judges work in."""
    with reporting_errors():
        made = create_session(
            names,
            runs,
            top=top,
            seed=seed,
            folder=session,
            dataset=collection_directory(dataset) if dataset else None,
            split=split,
            added=judgments or (),
        )
        for note in made.notes:
            say(note)
        show(made.file.sentence)
        if made.file.not_in_corpus:
            say(f"{made.file.not_in_corpus} pairs are left out: the corpus lacks their documents.")
        if remark := made.file.scale_remark:
            say(remark)
        show(f"Session: {made.folder}")
        say(f"Next: {command_line('judge', 'grade', str(made.folder), '--judge', 'NAME')}")


@judge.command("show")
def show_session(folder: Session) -> None:
    """Prints how far each judge is, and the pairs of which equally many judges gave different grades."""
    with reporting_errors():
        session = JudgingSession(folder)
        graded = session.graded()
        tied = [pair for pair in graded if pair.tied]
        show(session.file.sentence)
        rows = [[one.judge, str(one.graded), str(one.skipped), str(one.left)] for one in session.progress()]
        if rows:
            show(f"\n{aligned([['judge', 'graded', 'skipped', 'left'], *rows])}")
        show(f"\n{len(graded)} of {len(session.pairs)} pairs are judged, {len(tied)} of them tied.")
        if tied:
            grades = [", ".join(f"{judge} {grade}" for judge, grade in pair.by_judge.items()) for pair in tied]
            rows = [[one.pair.query, one.pair.document, text] for one, text in zip(tied, grades, strict=True)]
            more = f"\n\nThe first {MOST_TIED} tied pairs are shown." if len(tied) > MOST_TIED else ""
            show(f"\n{aligned([['query', 'document', 'grades'], *rows[:MOST_TIED]])}{more}")


@judge.command()
def grade(
    folder: Session,
    judge: Annotated[str, typer.Option("--judge", help="Who judges: the name of the file of judgments.")],
    order: Annotated[
        str,
        typer.Option(help="pool; impact: first what can change the comparison most, without what others have graded."),
    ] = "pool",
) -> None:
    """Shows one pair after another and reads a key for each, with Enter. Ends with q, or where the input ends."""
    with reporting_errors():
        chosen: Order | None = next((name for name in get_args(Order) if name == order), None)
        if chosen is None:
            raise WrongOption(f"--order {order}: there are {', '.join(get_args(Order))}")
        done = _graded(JudgingSession(folder), judge, chosen)
        say(f"Judgments written: {done}. Progress: {command_line('judge', 'show', str(folder))}")


@judge.command()
def export(folder: Session, file: Annotated[Path, typer.Argument(help="The qrels to write.")]) -> None:
    """Writes the judgments as qrels, and beside them FILE.json, which tells what made them."""
    with reporting_errors():
        made = export_judgments(JudgingSession(folder), file)
        show(f"{made.judged} of {made.pairs} pairs in {file}; {made.tied} of them tied ({made.rule}).")
        say(f"Next: {command_line('quality', '--run', 'RUN', '--judgments', str(file))}")


def _graded(session: JudgingSession, judge: str, order: Order) -> int:
    """Reads keys until there is no pair, no input, or a q. Returns how many judgments of this call stand."""
    written = 0
    current = session.next_pair(judge, order)
    grades = {str(grade): meaning for grade, meaning in enumerate(session.file.scale)}
    show(_keys(grades))
    while current is not None:
        _show_pair(current)
        key = _key(grades)
        if key in ("", "q"):
            return written
        if key == "u":
            taken_back = session.undo(judge)
            if taken_back is None:
                say("Nothing to undo.")
            else:
                written = max(0, written - 1)  # it may be one of an earlier call
                current = session.shown(taken_back)
            continue
        if key == "s":
            session.skip(judge, current.pair)
        else:
            session.grade(judge, current.pair, int(key))
        written += 1
        current = session.next_pair(judge, order)
    say("No pair is left for this judge.")
    return written


def _show_pair(shown: ShownPair) -> None:
    show(f"\nQuery:    {shown.query}\nDocument: {shown.title or '(no title)'}\n\n{shown.text}\n")


def _keys(grades: Mapping[str, str]) -> str:
    return "; ".join(", ".join(f"{key} {what}" for key, what in some.items()) for some in (grades, KEYS))


def _key(grades: Mapping[str, str]) -> str:
    """Reads lines until one is a key; returns an empty string where the input ends."""
    while True:
        sys.stdout.write("grade> ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        key = line.strip().lower()
        if not line or key in grades or key in KEYS:
            return key
        say(f"{key!r} is no key: {_keys(grades)}")
