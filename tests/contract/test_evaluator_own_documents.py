"""`datasets from` makes a collection of documents as they are, which every later step reads."""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.comparison.comparing import query_slices
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.judging.session import JudgingSession


def evaluator(*words: object) -> Result:
    return CliRunner().invoke(app, ["datasets", *map(str, words)])


def written(path: Path, content: str | Sequence[object]) -> Path:
    """Writes a text, or a line of JSON for each value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else "".join(f"{json.dumps(value)}\n" for value in content)
    path.write_text(text, encoding="utf-8")
    return path


def documents(made: Path | Dataset) -> dict[str, tuple[str, str]]:
    """Returns title and text of each document by its id."""
    dataset = read_dataset(made) if isinstance(made, Path) else made
    return {document.id: (document.title, document.text) for document in dataset.documents()}


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    """A folder of Markdown and text, with what is neither."""
    folder = tmp_path / "manual"
    written(
        folder / "returns.markdown",
        "---\ntitle: 'Sending back'\ntags: [a]\n---\n\nRead [this](http://x.example) first.\n\n# Parcels\n\n"
        "A **parcel** may be\nsent back within 30 days.\n\n```\n# no heading\n```\n\n## Costs\n\n| who | pays |\n"
        "|-|-|\n| the shop | nothing |\n",
    )
    written(
        folder / "shop" / "hours.markdown",
        "# Opening hours\n\nThe shop is open from nine to five on every working day.\n",
    )
    written(folder / "notes.txt", "Bring the\nkey back.\n")
    written(folder / "logo.svg", "<svg/>")
    written(folder / ".git" / "x.markdown", "hidden")
    return folder


@pytest.fixture
def question_table(tmp_path: Path) -> Path:
    return written(
        tmp_path / "questions.csv",
        "query,document,grade\ncan I return my order,returns.markdown,2\n"
        '"when, please, is it open?",opening  HOURS,\ncan I return my order,notes.txt,1\n',
    )


def test_a_folder_and_a_table_of_questions_become_a_collection(
    tmp_path: Path, manual: Path, question_table: Path
) -> None:
    done = evaluator("from", manual, "--queries", question_table, "--to", tmp_path / "made")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/made: 3 documents, 2 queries, 3 judgments\n")
    assert "logo.svg" in done.stderr
    assert f"make demo DATASET={tmp_path}/made" in done.stderr
    read = read_dataset(tmp_path / "made", strict=True)
    assert documents(read) == {
        "notes.txt": ("notes", "Bring the\nkey back."),
        "returns.markdown": (
            "Sending back",
            "Read this first.\n\nParcels\n\nA parcel may be sent back within 30 days.\n\n# no heading\n\nCosts\n\n"
            "who pays\n\nthe shop nothing",
        ),
        "shop/hours.markdown": ("Opening hours", "The shop is open from nine to five on every working day."),
    }
    assert read.queries == {
        "can-i-return-my-order": "can I return my order",
        "when-please-is-it-open": "when, please, is it open?",
    }
    assert read.judgments == {
        "can-i-return-my-order": {"returns.markdown": 2, "notes.txt": 1},
        "when-please-is-it-open": {"shop/hours.markdown": 1},
    }


def test_headings_are_documents_whose_ids_stay_when_others_come(tmp_path: Path, manual: Path) -> None:
    question_table = written(tmp_path / "q.csv", "question\tdocument\nwho pays\treturns.markdown#costs\n")
    words = ["from", manual, "--by", "heading", "--queries", question_table, "--to"]
    assert evaluator(*words, tmp_path / "one").exit_code == 0
    before = documents(tmp_path / "one")
    assert before["returns.markdown"] == ("Sending back", "Read this first.")
    assert before["returns.markdown#costs"] == ("Sending back > Parcels > Costs", "who pays\n\nthe shop nothing")
    assert before.keys() == {
        "returns.markdown",
        "returns.markdown#parcels",
        "returns.markdown#costs",
        "shop/hours.markdown#opening-hours",
        "notes.txt",
    }
    page = manual / "returns.markdown"
    written(page, page.read_text().replace("## Costs", "## Why\n\nIt broke.\n\n## Costs") + "\n## Costs\n\nAgain.\n")
    assert evaluator(*words, tmp_path / "two").exit_code == 0
    assert documents(tmp_path / "two").keys() - before.keys() == {"returns.markdown#why", "returns.markdown#costs-1"}
    assert documents(tmp_path / "two")["returns.markdown#costs"] == before["returns.markdown#costs"]


TABLE = 'SKU;Name;Details;More;Price\na1;Bell;rings;loud;3\na2;Lamp;"shines\nat night";;4\n'
OBJECTS = [
    {"sku": "a1", "name": "Bell", "body": {"details": "rings", "more": ["loud"]}, "metadata": {"price": 3}},
    {"sku": "a2", "name": "Lamp", "body": {"details": "shines\nat night"}, "price": 4},
]


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("shop.csv", TABLE, ("SKU", "Details", "More")),
        ("shop.tsv", TABLE.replace(";", "\t"), ("SKU", "Details", "More")),
        ("shop.jsonl", OBJECTS, ("sku", "body.details", "body.more")),
        ("list.json", json.dumps(OBJECTS, indent=1), ("sku", "body.details", "body.more")),
    ],
)
def test_columns_and_fields_are_named(
    tmp_path: Path, name: str, content: str | Sequence[object], fields: Sequence[str]
) -> None:
    source = written(tmp_path / name, content)
    question_table = written(tmp_path / "q.csv", "query,document\nbell,Bell\n")
    identity, *texts = fields
    named = ["--id", identity, *(word for text in texts for word in ("--text", text))]
    done = evaluator("from", source, *named, "--queries", question_table, "--to", tmp_path / "made")
    assert done.exit_code == 0, done.stderr
    read = read_dataset(tmp_path / "made", strict=True)
    assert documents(read) == {"a1": ("Bell", "rings\nloud"), "a2": ("Lamp", "shines\nat night")}
    assert "rice of " in done.stderr  # a field of which nothing is made
    assert read.schema == ({"price": "number"} if "json" in name else {})


def refusal(tmp_path: Path, *words: object) -> list[str]:
    """Returns the lines of the error of a call that writes nothing."""
    done = evaluator("from", *words, "--to", tmp_path / "made")
    assert done.exit_code == 1
    assert [path.name for path in tmp_path.iterdir() if "made" in path.name] == []
    return done.stderr.replace(f"{tmp_path}/", "").partition("evaluator: ")[2].splitlines()


def test_every_wrong_line_is_named_with_its_file(tmp_path: Path, manual: Path) -> None:
    written(manual / "again.markdown", "# Opening hours\n\nClosed.\n")
    (manual / "latin.txt").write_bytes(b"caf\xe9")
    rows = written(tmp_path / "a.csv", "id,text\n1,one\n2\n1,again\n,none\n")
    lines = written(tmp_path / "b.jsonl", '{"id": "x", "text": "x"}\nno\n\n{"text": "y"}\n{"id": "z", "text": {}}\n')
    question_table = written(
        tmp_path / "q.csv",
        "query,document,grade\nopen,opening hours,1\nback,manual/returns.markdown,1\nback,returns.markdown,much\n"
        ",returns.markdown,1\n"
        "key,notes.txt,1\nkey,notes.txt,2\n",
    )
    faults = refusal(tmp_path, manual, rows, lines, "--queries", question_table)
    assert [line.partition(": ")[0] for line in faults] == [
        "manual/latin.txt", "a.csv:3", "a.csv:4", "a.csv:5", "b.jsonl:2", "b.jsonl:4", "b.jsonl:5", "q.csv:2",
        "q.csv:3", "q.csv:4", "and 2 more",
    ]  # fmt: skip
    assert "again.markdown, shop/hours.markdown" in faults[7]
    assert "returns.markdown" in faults[8].partition(";")[2]  # the similar one


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", 'id,text\n1,one\n2,"two\n', "a.csv:3"),
        ("a.csv", "", "a.csv:1"),
        ("a.csv", "text,price\none,1\n", "a.csv:2"),
        ("a.csv", "id,text,id\n1,one,2\n", "a.csv:1"),
        ("a.json", '[\n {"id": 1, "text": "x"},\n 7]', "a.json, object 2"),
        ("a.json", '[{"id": 1, "text": "x"}\n {}]', "a.json"),
        ("a.pdf", "%PDF", "a.pdf"),
    ],
)
def test_a_file_that_is_none_of_its_kind_is_refused(tmp_path: Path, name: str, content: str, place: str) -> None:
    source = written(tmp_path / name, content)
    assert refusal(tmp_path, source, "--questions", 1)[0].partition(": ")[0] == place


def test_a_field_that_nothing_has_and_a_header_without_documents_are_refused(tmp_path: Path, manual: Path) -> None:
    source = written(tmp_path / "a.jsonl", [{"id": "1", "text": "one"}])
    assert "`body`" in refusal(tmp_path, source, "--text", "body", "--questions", 1)[0]
    question_table = written(tmp_path / "q.csv", "query,answer\nback,returns.markdown\n")
    assert refusal(tmp_path, manual, "--queries", question_table)[0].startswith("q.csv:1: ")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, manual: Path, question_table: Path) -> None:
    written(tmp_path / "made" / "mine", "x")
    done = evaluator("from", manual, "--queries", question_table, "--to", tmp_path / "made")
    assert (done.exit_code, [path.name for path in (tmp_path / "made").iterdir()]) == (2, ["mine"])
    (tmp_path / "empty").mkdir()
    assert evaluator("from", manual, "--queries", question_table, "--to", tmp_path / "empty").exit_code == 0


def test_an_option_that_no_source_heeds_and_none_for_questions_are_refused(tmp_path: Path, manual: Path) -> None:
    assert evaluator("from", manual, "--to", tmp_path / "made").exit_code == 2
    table = written(tmp_path / "a.csv", "id,text\n1,one\n")
    for source, option, value in ((manual, "--title", "name"), (table, "--by", "heading")):
        done = evaluator("from", source, option, value, "--questions", 1, "--to", tmp_path / "made")
        assert (done.exit_code, option in done.stderr) == (2, True)


def test_proposed_questions_are_sentences_of_one_document_and_the_same_again(
    tmp_path: Path, question_table: Path
) -> None:
    folder = tmp_path / "pages"
    same = "This sentence stands at the end of every page."
    for number in range(20):
        own = f"Only page {'abcdefghijklmnopqrst'[number]} knows that the colour of its bell is brown."
        written(
            folder / f"{number}.markdown", f"# Page {number}\n\n{own}\n{same}\n\n`x = 1; y = 2; z = 3; w = 4; v = 5`\n"
        )
    for made in ("one", "two"):
        done = evaluator("from", folder, "--questions", 5, "--to", tmp_path / made)
        assert done.exit_code == 0, done.stderr
    assert "favour lexical search" in done.stderr
    read = read_dataset(tmp_path / "one")
    assert len(read.queries) == 5
    for query, text in read.queries.items():
        (document,) = read.judgments[query]
        assert text in documents(read)[document][1]
        assert text != same
    assert (tmp_path / "one" / "queries.jsonl").read_bytes() == (tmp_path / "two" / "queries.jsonl").read_bytes()
    other = evaluator("from", folder, "--questions", 5, "--seed", 1, "--to", tmp_path / "three")
    assert other.exit_code == 0
    assert read_dataset(tmp_path / "three").queries != read.queries


def test_an_address_without_an_index_or_a_server_or_with_a_password_is_refused(tmp_path: Path) -> None:
    for source in ("http://127.0.0.1:9", "http://127.0.0.1:9/products"):
        assert refusal(tmp_path, source, "--questions", 1)[0].startswith(source)
    assert "secret" not in "".join(refusal(tmp_path, "http://me:secret@127.0.0.1:9/products", "--questions", 1))


def test_a_comparison_shows_proposed_and_given_questions_apart(
    tmp_path: Path, manual: Path, question_table: Path
) -> None:
    done = evaluator("from", manual, "--queries", question_table, "--questions", 9, "--to", tmp_path / "made")
    assert "2 of 9 known-item queries" in done.stderr
    read = read_dataset(tmp_path / "made")
    slices = query_slices(tmp_path / "made" / "queries.jsonl", list(read.judgments))
    assert {value: len(queries) for value, queries in slices["origin"].items()} == {"given": 2, "known-item": 2}


def test_questions_without_judgments_begin_with_a_pool(tmp_path: Path, manual: Path) -> None:
    made, question_table = (
        tmp_path / "made",
        written(tmp_path / "q.csv", "query\ncan I return my order\nwhen is it open\n"),
    )
    done = evaluator("from", manual, "--queries", question_table, "--to", made)
    assert (done.exit_code, done.stdout) == (0, f"{made}: 3 documents, 2 queries, 0 judgments\n")
    assert "judge pool latest:bm25" in done.stderr

    def run(*words: object) -> Result:
        return CliRunner().invoke(app, [*map(str, words)], env={"EVALUATOR_RUNS": f"{tmp_path}/runs"})

    ranking = "can-i-return-my-order Q0 notes.txt 1 2 x\ncan-i-return-my-order Q0 returns.markdown 2 1 x\n"
    other = ranking.replace(" 1 2 ", " 2 0 ")
    files = [
        written(tmp_path / f"{name}.trec", f"{content}when-is-it-open Q0 shop/hours.markdown 1 1 x\n")
        for name, content in (("one", ranking), ("other", other))
    ]
    done = run("import", made, *files, "--depth", 10)
    assert done.exit_code == 3
    assert "judges no document" in done.stderr
    report = next((tmp_path / "runs").glob("2*/report.json"))
    assert json.loads(report.read_text())["pipelines"]["one"]["quality"]["nDCG@10"] == 0
    qrels = tmp_path / "mine.tsv"
    assert run("judge", "pool", report.parent).exit_code == 0
    session = JudgingSession(next((tmp_path / "runs" / "judging").iterdir()))
    for pair in session.pairs:
        session.grade("ann", pair, 0 if pair.document == "notes.txt" else 2)
    assert run("judge", "export", session.folder, qrels).exit_code == 0
    assert run("quality", "--run", report.parent, "--judgments", qrels).exit_code == 0
    done = run("report", "--run", report.parent)
    assert done.exit_code == 0, done.stderr
    figures = json.loads(report.read_text())["pipelines"]
    assert (figures["one"]["quality"]["MRR@10"], figures["other"]["quality"]["MRR@10"]) == (0.75, 1.0)
    # As the collection's own judgments they replace the file that names the queries.
    (made / "qrels" / "test.tsv").write_bytes(qrels.read_bytes())
    assert read_dataset(made).counts.positive_judgments == 2


@pytest.mark.parametrize(("files", "people"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_name_is_the_same_however_its_accents_are_stored(tmp_path: Path, files: str, people: str) -> None:
    def in_form(form: str, text: str) -> str:
        return unicodedata.normalize("NFD" if form == "NFD" else "NFC", text)

    folder = tmp_path / "notes"
    written(folder / in_form(files, "Café/Thé vert.markdown"), in_form(files, "# Über Grüntee\n\nA leaf.\n"))
    written(folder / in_form(files, "Crème.txt"), "Milk.")
    table = written(tmp_path / "a.csv", in_form(files, "id,title,text\nÉ1,Öl,Fat.\n"))
    rows = "leaf,über  GRÜNTEE\nleaf too,Café/Thé vert.markdown\nmilk,crème\nfat,é1\nfat again,É1\nthé,ÖL\n"
    question_table = written(tmp_path / "q.csv", in_form(people, f"query,document\n{rows}".replace("fat,é1\n", "")))
    question_table.write_text(question_table.read_text() + in_form(files, "thé,Öl\n"))
    done = evaluator("from", folder, table, "--queries", question_table, "--to", tmp_path / "made")
    assert done.exit_code == 0, done.stderr
    assert ("NFC" in done.stderr) == (files == "NFD")  # what was changed of an id
    read = read_dataset(tmp_path / "made", strict=True)
    assert read.judgments == {
        "leaf": {"Café/Thé vert.markdown": 1}, "leaf-too": {"Café/Thé vert.markdown": 1}, "milk": {"Crème.txt": 1},
        "fat-again": {"É1": 1}, "thé": {"É1": 1},
    }  # fmt: skip
    assert next(iter(read.documents())).metadata == {"folder": "Café"}
