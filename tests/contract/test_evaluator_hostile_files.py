"""Twenty hostile but legal files become one collection, and what `datasets check` accepts is loaded and found."""

import unicodedata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import connected
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.experiments.experiment import Experiment
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from tests.support.real_stack import real_stack

MARK = b"\xef\xbb\xbf"
KAZAN = unicodedata.normalize("NFD", "Казань–Йошкар-Ола")

# ruff: noqa: E501
# As the programs write them. Spreadsheets: Excel, LibreOffice, Google Sheets; databases: MySQL; notes: Obsidian, Hugo.
FILES: dict[str, bytes] = {
    "excel.csv": MARK + b'sep=;\r\nid;title;text;Preis, netto, brutto;;\r\nx1;Bell;"Rings; loudly";"10,50";;\r\n'
    b'x2;Lock;"Two\r\nlines";"9,00";;\r\n',
    "excel-tabs.tsv": b'id\ttitle\ttext\r\nt1\tPump\t"First line\r\nsecond line"\r\nt2\tSaddle\t"A ""soft"" seat"\r\n',
    "libreoffice.csv": '"id","title","text","zip"\n"l1","Käse","Alpkäse, gereift","02139"\n"l2","","","10001"\n'.encode(),
    "sheets.csv": 'id,title,text,version,,\r\ng1,🔥,Hot stove,1.9,,\r\ng2,Tool,"Says ""no""",1.10,,'.encode(),
    "sheets.tsv": b'id\ttitle\ttext\nh1\tOpen\t"First of two lines\nh2\tKettle\tBoils water"\nh3\tPot\tKeeps tea warm\n',
    "msmarco.tsv": b'pid\tpassage\nm1\t"Hello" she said.\nm2\tA 5" nail is not a 6" nail\n',
    "mysql.csv": b'id,title,text,released\n"q1","Oil can","Holds oil","2024-05-31"\n'
    b'"q2","Rim","Holds the tyre","0000-00-00"\n"q3",NULL,"No title","2024-05-31 12:00:00"\n',
    "old-mac.csv": b"id,title,text,price\rc1,Chain,Drives the wheel,10.50\rc2,Cog,Turns,9.00\r",
    "long.csv": b"id,title,text,notes\nn1,Long,Has notes," + b"word " * 8000 + b"\nn2,Short,Has few,few\n",
    "shop.jsonl": b'{"id": "j1", "title": "Tyre", "text": "Rolls", "metadata": {"size": 28, "tags": ["a", "b"]}}\n'
    b'{"id": "j2", "title": "Tube", "text": "Holds air", "metadata": {"size": "28 inch", "big": 9007199254740993}}\n',
    "list.json": b'[{"id": 7, "title": null, "body": "A number is its id"}, {"id": "k2", "body": ["Two", "texts"], "price": 1e300}]',
    "notes/obsidian.markdown": b"---\n# a comment\ntags: [repair, winter]\ndate created: 2024-05-31\naliases:\n  - Brakes\n---\n"
    b"# Brake pads\n\nSee [[Rims|the rims]] first.\n\n| part | size |\n|-|-|\n| stem bolts<br>seat clamp | 5 |\n",
    "notes/folded.markdown": b"---\ntitle: >-\n  A title over\n  two lines\nzip: 02139\n---\nBelow the folded title.\n",
    "notes/quoted.markdown": b"---\ntitle: 'It''s here'\ndraft: yes\n---\nBelow the quoted title.\n",
    "notes/commented.markdown": b"---\r\ntitle: Plain # a comment\r\n---\r\nBelow the plain title.\r\n",
    "notes/hugo.markdown": b'+++\ntitle = "From Hugo"\ndate = 2024-05-31T12:00:00Z\n+++\nBelow the title in TOML.\n',
    "notes/break.markdown": b"---\n\nA rule begins no front matter.\n\n---\n\nThe end.\n",
    f"notes/{KAZAN}.markdown": f"# {KAZAN}\n\nA train goes every day.\n".encode(),
    "notes/languages.markdown": "# हिन्दी\n\nयह हिन्दी में लिखा गया है।\n\n# 日本語\n\n自転車は駅の前にあります。毎日使います。\n".encode(),
    "notes/thai.txt": "จักรยานอยู่หน้าสถานี".encode("utf-8-sig"),
}
TITLES = {
    "x1": "Bell", "x2": "Lock", "t1": "Pump", "t2": "Saddle", "l1": "Käse", "g1": "🔥", "g2": "Tool", "h1": "Open",
    "h2": "Kettle", "h3": "Pot", "m1": "", "m2": "", "q1": "Oil can", "q2": "Rim", "q3": "NULL", "c1": "Chain",
    "c2": "Cog", "n1": "Long", "n2": "Short", "j1": "Tyre", "j2": "Tube", "7": "", "k2": "",
    "obsidian.markdown": "Brake pads", "folded.markdown": "A title over two lines", "quoted.markdown": "It's here",
    "commented.markdown": "Plain", "hugo.markdown": "From Hugo", "break.markdown": "break",
    unicodedata.normalize("NFC", f"{KAZAN}.markdown"): KAZAN,
    "languages.markdown": "हिन्दी", "thai.txt": "thai",
}  # fmt: skip
TEXTS = {
    "x1": "Rings; loudly", "x2": "Two\nlines", "t1": "First line\nsecond line", "t2": 'A "soft" seat',
    "g2": 'Says "no"', "h1": '"First of two lines', "h2": 'Boils water"', "m1": '"Hello" she said.',
    "m2": 'A 5" nail is not a 6" nail', "k2": "Two\ntexts", "folded.markdown": "Below the folded title.",
    "quoted.markdown": "Below the quoted title.", "commented.markdown": "Below the plain title.",
    "hugo.markdown": "Below the title in TOML.", "break.markdown": "A rule begins no front matter.\n\nThe end.",
}  # fmt: skip
METADATA = ("Preis, netto, brutto", "zip", "version", "released", "price", "notes", "tags", "date created", "draft")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    questions = tmp_path / "questions.csv"
    questions.write_text(f"query,document\nwhen is the train,{unicodedata.normalize('NFC', KAZAN)}\n")
    tables = [str(tmp_path / name) for name in FILES if "/" not in name]
    options = [word for name in METADATA for word in ("--metadata", name)]
    made = CliRunner().invoke(
        app, ["datasets", "from", *tables, str(tmp_path / "notes"), *options, "--queries", str(questions),
              "--questions", "3", "--to", str(tmp_path / "made")],
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    checked = CliRunner().invoke(app, ["datasets", "check", str(tmp_path / "made")])
    assert checked.exit_code == 0, checked.output
    return read_dataset(tmp_path / "made", strict=True)


def test_no_document_of_hostile_files_is_lost_or_changed(dataset: Dataset) -> None:
    documents = {document.id: document for document in dataset.documents()}
    assert {identity: document.title for identity, document in documents.items()} == TITLES
    assert {identity: documents[identity].text for identity in TEXTS} == TEXTS
    assert "stem bolts seat clamp" in documents["obsidian.markdown"].text
    assert not {"tags", "comment", "aliases"} & set(documents["obsidian.markdown"].text.split())
    assert {documents["l1"].metadata["zip"], documents["folded.markdown"].metadata["zip"]} == {"02139"}
    assert (documents["g1"].metadata["version"], documents["g2"].metadata["version"]) == ("1.9", "1.10")
    assert documents["obsidian.markdown"].metadata["tags"] == ("repair", "winter")


def test_fields_have_the_one_kind_that_all_their_values_fit(dataset: Dataset) -> None:
    kinds = {name: dataset.schema.get(name) for name in ("zip", "version", "released", "price", "notes", "tags")}
    assert kinds == {
        "zip": "keyword", "version": "keyword", "released": "keyword", "price": "number", "notes": None,
        "tags": "keyword",
    }  # fmt: skip


async def test_what_the_check_accepts_is_loaded_whole(dataset: Dataset, tmp_path: Path) -> None:
    experiment = Experiment.model_validate(
        {"name": "hostile", "dataset": str(dataset.directory), "collection": "c", "pipelines": ["bm25"]}
    )
    (tmp_path / "stack").mkdir()
    async with real_stack(tmp_path / "stack") as stack, connected("http://stack", stack.into_gateway) as client:
        report = await ingest(client, experiment, load_dataset(experiment))
        assert (report.documents, report.undeclared_metadata) == (len(TITLES), ("notes",))
        assert {backend.indexed for backend in report.backends.values()} == {len(TITLES)}
        for query, document in (("हिन्दी", "languages.markdown"), ("🔥", "g1"), ("izmir kettle", "h2")):
            answer = await stack.post("/search", query=query, pipeline="bm25")
            assert [hit["id"] for hit in answer.json()["hits"]][:1] == [document]
