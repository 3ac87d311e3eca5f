"""Commands of online experiments: the verdict by the journals of gateways, and the removal of a unit from them."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from evaluator.commands.comparison import WORSE
from evaluator.commands.options import reporting_errors
from evaluator.errors import EvaluationError
from evaluator.online.journal import forget as forget_unit
from evaluator.online.online_page import online_page
from evaluator.online.online_report import EFFECT, online_reports
from evaluator.pages.markdown_page import render_markdown
from evaluator.progress import show

online = typer.Typer(no_args_is_help=True, help="Verdicts on live experiments, by the journals of gateways.")

Journals = Annotated[
    list[str], typer.Option("--journal", help="Folder of a journal, or URL of an Elasticsearch; may be repeated.")
]


@online.command()
def report(
    name: Annotated[str, typer.Argument(help="The experiment: a pipeline of the gateway.")],
    journal: Journals,
    now: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M%z"], help="Report as of this time (UTC)."),
    ] = None,
    effect: Annotated[
        float, typer.Option(min=1e-9, help="Say how long a difference of this size takes, in the metric's unit.")
    ] = EFFECT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Says of each arm that it is better than the first one, worse or the same, or that it cannot tell yet.

    May be read as often as you like. Exit status 4: an arm is worse.
    """
    with reporting_errors():
        time = datetime.now(UTC) if now is None else now.replace(tzinfo=now.tzinfo or UTC)
        reports = online_reports(journal, time, name, effect)
        if not reports:
            raise EvaluationError(
                f"{', '.join(journal)}: no search of an experiment {name} by {time:%Y-%m-%d %H:%M %Z}"
            )
        page = online_page(reports)
        show(reports[0].model_dump_json(indent=2) if as_json else render_markdown(page.title, page.blocks))
        if any(verdict.outcome == "worse" for verdict in reports[0].verdicts):
            raise typer.Exit(WORSE)


@online.command()
def forget(
    unit: Annotated[str, typer.Argument(help="The unit, as the app sent it in X-Unit-Id.")], journal: Journals
) -> None:
    """Removes the lines of a unit from journals, also while gateways write. First make the app stop sending it."""
    with reporting_errors():
        show(f"{forget_unit(unit, journal):,} lines removed.")
