"""Writes the page of a step: `<name>.md`, `<name>.html`, and its charts and tables in the folder `<name>/`."""

from evaluator.pages.page_blocks import tables_of
from evaluator.pages.sections import page_sections
from evaluator.pages.standalone_page import StandalonePage, render_standalone
from evaluator.pages.step_page import StepPage, render_step_markdown
from evaluator.pages.table_files import write_tables
from evaluator.runs.run_folder import RunFolder, writable
from services.files.disk_writes import write_whole


def write_step_page(folder: RunFolder, page: StepPage) -> None:
    """Writes the page, its charts and its tables; those of an earlier call are replaced, other files stay."""
    own = folder.path / page.name
    for old in (*own.glob("*.svg"), *own.glob("*.csv"), *own.glob("*.tex")):
        old.unlink()
    for path, svg in page.svgs.items():
        write_whole(writable(folder.path / path), svg)
    write_tables(own, tables_of(page.blocks))
    folder.write_text(f"{page.name}.md", render_step_markdown(page))
    shown = StandalonePage(
        page.title, valid=None, status=None, facts=(), sections=page_sections(page.blocks, page.svgs)
    )
    folder.write_text(f"{page.name}.html", render_standalone(shown, f"{page.name}/"))
