"""Commands of judging: make a pool, look how far judges are, export qrels. Judges grade on the service's pages."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import RUNS, AddedFiles, Runs, collection_directory, reporting_errors
from evaluator.errors import command_line
from evaluator.judging.export import export_judgments
from evaluator.judging.new_session import create_session
from evaluator.judging.session import JudgingSession
from evaluator.pages.markdown_page import aligned
from evaluator.progress import say, show

judge = typer.Typer(no_args_is_help=True, help="Collects judgments of documents that runs found and nobody has judged.")

MOST_TIED = 20  # that `show` prints

Session = Annotated[Path, typer.Argument(help="The session folder that `judge pool` made.")]


@judge.command()
def pool(
    names: Annotated[list[str], typer.Argument(help="Run folders, RUN:PIPELINE or TREC run files ([NAME=]FILE).")],
    top: Annotated[int, typer.Option(min=1, max=1000, help="Number of first hits to pool from each ranking.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the judging order.")] = 20_250_601,
    dataset: Annotated[
        str | None, typer.Option(help="The collection of the run files: a directory or a name from `datasets list`.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="The split of --dataset. Default: test.")] = None,
    judgments: AddedFiles = None,
    runs: Runs = RUNS,
) -> None:
    """Pools the unjudged documents of pipelines in a new folder, judging/<utc>-<dataset> in --runs."""
    with reporting_errors():
        made = create_session(
            names,
            runs,
            top=top,
            seed=seed,
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
        say(f"Next: {command_line('serve')}, unless `make up` does, and grade on the page /judge/{made.folder.name}")


@judge.command("show")
def show_session(folder: Session) -> None:
    """Prints the progress of each judge, and the pairs on which the judges are tied."""
    with reporting_errors():
        session = JudgingSession(folder)
        graded = session.graded()
        tied = [pair for pair in graded if pair.tied]
        show(session.file.sentence)
        rows = [[judge.judge, str(judge.graded), str(judge.skipped), str(judge.left)] for judge in session.progress()]
        if rows:
            show(f"\n{aligned([['judge', 'graded', 'skipped', 'left'], *rows])}")
        show(f"\n{len(graded)} of {len(session.pairs)} pairs are judged, {len(tied)} of them tied.")
        if tied:
            grades = [", ".join(f"{judge} {grade}" for judge, grade in pair.by_judge.items()) for pair in tied]
            rows = [[tie.pair.query, tie.pair.document, text] for tie, text in zip(tied, grades, strict=True)]
            more = f"\n\nThe first {MOST_TIED} tied pairs are shown." if len(tied) > MOST_TIED else ""
            show(f"\n{aligned([['query', 'document', 'grades'], *rows[:MOST_TIED]])}{more}")


@judge.command()
def export(folder: Session, file: Annotated[Path, typer.Argument(help="The qrels to write.")]) -> None:
    """Writes the judgments as qrels, and FILE.json with their origin."""
    with reporting_errors():
        session = JudgingSession(folder)
        made = export_judgments(session, file)
        show(f"{made.judged} of {made.pairs} pairs in {file}; {made.tied} of them tied ({made.rule}).")
        runs = dict.fromkeys(folder.resolve().parents[1] / source.run for source in session.file.sources)
        for run in filter(Path.is_dir, runs):  # not of run files
            say(f"Next: {command_line('quality', '--run', str(run), '--judgments', str(file))}")
