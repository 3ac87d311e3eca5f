"""`datasets from` reads tables as spreadsheets and databases write them, and counts what it changes or leaves out."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.datasets.reader import read_dataset
from services.contracts.documents import Document, MetadataValue

Rows = Sequence[tuple[str, str, str]]


def made_of(tmp_path: Path, name: str, content: str | bytes, *metadata: str) -> tuple[list[Document], Result]:
    """Returns the documents of a file, in its order, and what the command said."""
    source = tmp_path / name
    tmp_path.mkdir(exist_ok=True)
    source.write_bytes(content if isinstance(content, bytes) else content.encode())
    asked = tmp_path / "asked.csv"
    asked.write_text("query\nkettle\n")
    words = [word for field in metadata for word in ("--metadata", field)]
    done = CliRunner().invoke(
        app, ["datasets", "from", str(source), "--queries", str(asked), "--to", str(tmp_path / "made"), *words]
    )
    if done.exit_code:
        return [], done
    return list(read_dataset(tmp_path / "made").documents()), done


def rows(documents: Sequence[Document]) -> Rows:
    return [(one.id, one.title, one.text) for one in documents]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            ['1\tOpen\t"First of two lines', '2\tKettle\tBoils water"', "3\tPot\tKeeps tea warm"],
            [("1", "Open", '"First of two lines'), ("2", "Kettle", 'Boils water"'), ("3", "Pot", "Keeps tea warm")],
            id="quotes of two rows",
        ),
        pytest.param(
            ['1\tGreeting\t"Hello" she said.', "2\tPot\tx"],
            [("1", "Greeting", '"Hello" she said.'), ("2", "Pot", "x")],
            id="a quoted word first",
        ),
        pytest.param(
            ['1\tPot\t"Keeps ""tea""', "", 'warm"', "2\tPan\tfries"],
            [("1", "Pot", 'Keeps "tea"\n\nwarm'), ("2", "Pan", "fries")],
            id="a cell of three lines",
        ),
        pytest.param(
            ['1\t"Pot', 'lid"\t"Keeps', 'warm"', "2\tPan\tfries"],
            [("1", "Pot\nlid", "Keeps\nwarm"), ("2", "Pan", "fries")],
            id="two cells of two lines",
        ),
        pytest.param(
            ['1\t"Pot, large"\t"5"" wide"', "2\tPan\tfries"],
            [("1", "Pot, large", '5" wide'), ("2", "Pan", "fries")],
            id="cells that Excel quotes",
        ),
        pytest.param(
            ['1\t"Pot\tlid"', '2\t"Tea\tpot"\t"holds', 'tea"'],
            [("1", '"Pot', 'lid"'), ("2", "Tea\tpot", "holds\ntea")],
            id="a tab between quotes is one of the cell only where the row needs it",
        ),
        pytest.param(['1\tLast\t"never closed'], [("1", "Last", '"never closed')], id="a quote that nothing closes"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.tsv", "tabs.csv"])
def test_a_quote_of_a_tsv_file_is_text_unless_it_encloses_a_cell(
    tmp_path: Path, lines: Sequence[str], expected: Rows, end: str, name: str
) -> None:
    documents, done = made_of(tmp_path, name, end.join(["id\ttitle\ttext", *lines, ""]))
    assert rows(documents) == expected, done.stderr


def test_a_tsv_row_that_is_too_short_swallows_no_other(tmp_path: Path) -> None:
    _, done = made_of(tmp_path, "a.tsv", 'id\ttitle\ttext\n1\t"Open\n2\tKettle"\tboils\n')
    assert (done.exit_code, "a.tsv:2: columns: 2; the header has 3" in done.stderr) == (1, True)


def test_a_first_cell_may_span_lines_too(tmp_path: Path) -> None:
    documents, _ = made_of(tmp_path, "a.tsv", 'text\tid\n"Keeps tea\nwarm"\t1\nfries\t2\n')
    assert rows(documents) == [("1", "", "Keeps tea\nwarm"), ("2", "", "fries")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id,title,text,,\n1,Pot,Keeps tea warm,,\n", ("1", "Pot", "Keeps tea warm")),
        ("id,title,text\n1,Pot,Keeps tea warm,,\n", ("1", "Pot", "Keeps tea warm")),
        ("sep=;\nid;title;text\n1;Pot;Keeps, tea, warm\n", ("1", "Pot", "Keeps, tea, warm")),
        ("\ufeffsep=;\r\nid;title;text\r\n1;Pot;Keeps, tea, warm\r\n", ("1", "Pot", "Keeps, tea, warm")),
        ("sep=\t\nid\ttitle\ttext\n1\tPot\tKeeps; tea\n", ("1", "Pot", "Keeps; tea")),
        ("id;title;text;Preis, netto, brutto\n1;Pot;Keeps tea warm;3,50\n", ("1", "Pot", "Keeps tea warm")),
        ('id;title;text;"Preis, a, b, c, d"\n1;Pot;"a, b; c, d, e";3,50\n', ("1", "Pot", "a, b; c, d, e")),
        ('id,title,text\n1,Pot,"a; b; c; d"\n', ("1", "Pot", "a; b; c; d")),
        ('id,title,text\n1,5" pot,"Keeps\ntea"\n', ("1", '5" pot', "Keeps\ntea")),
    ],
)
def test_a_table_is_read_as_spreadsheets_write_it(tmp_path: Path, content: str, expected: Sequence[str]) -> None:
    documents, done = made_of(tmp_path, "a.csv", content)
    assert rows(documents) == [expected], done.stderr


def test_a_column_without_a_name_is_left_out_and_counted_if_it_has_values(tmp_path: Path) -> None:
    documents, done = made_of(tmp_path, "a.csv", ",id,text,\n0,1,kettle,\n1,2,pot,\n")
    assert rows(documents) == [("1", "", "kettle"), ("2", "", "pot")]
    assert "column 1 of " in done.stderr
    assert "column 4" not in done.stderr


def test_a_dump_of_mysql_is_read_with_its_nulls_and_escapes(tmp_path: Path) -> None:
    lines = [
        '"id","title","text","maker"',
        '"1","Pot",\\N,"Smith \\"and\\" Co"',
        '"2",\\N,"Keeps\\',
        'tea, \\"warm\\", in C:\\\\tea",\\N',
        "",
    ]
    documents, done = made_of(tmp_path, "a.csv", "\n".join(lines), "maker")
    assert rows(documents) == [("1", "Pot", ""), ("2", "", 'Keeps\ntea, "warm", in C:\\tea')], done.stderr
    assert [one.metadata for one in documents] == [{"maker": 'Smith "and" Co'}, {}]
    assert "MySQL" in done.stderr


def test_a_backslash_of_another_csv_file_is_text(tmp_path: Path) -> None:
    documents, _ = made_of(tmp_path, "a.csv", 'id,title,text\n1,"C:\\","the ""disk"" \\n"\n2,a\\b,"\\"\n')
    assert rows(documents) == [("1", "C:\\", 'the "disk" \\n'), ("2", "a\\b", "\\")]


def test_a_row_within_a_csv_cell_is_reported(tmp_path: Path) -> None:
    documents, done = made_of(tmp_path, "a.csv", 'id,title,text\n1,Open,"First of two\n2,Kettle,Boils"\n3,Pot,"a\nb"\n')
    assert [one.id for one in documents] == ["1", "3"]
    assert "a.csv:2" in done.stderr
    assert "a.csv:4" not in done.stderr


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["02139", "10001"], ["02139", "10001"]),
        (["1.9", "1.10"], ["1.9", "1.10"]),
        (["10.50", "9.00", "0.99"], [10.5, 9, 0.99]),
        (["1", "-2.5", "300"], [1, -2.5, 300]),
        (["1", "", "2"], [1, None, 2]),
        (["2019", "soon"], ["2019", "soon"]),
        (["9007199254740993", "1"], ["9007199254740993", "1"]),
        (["123456789012345678901234567890123456789012345", "1"],
         ["123456789012345678901234567890123456789012345", "1"]),
        (["0.12345678901234567890", "0.10000000000000000000"], ["0.12345678901234567890", "0.10000000000000000000"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["-0", "2"], ["-0", "2"]),
        (["3,50", "4,00"], ["3,50", "4,00"]),
        (["NaN", "1"], ["NaN", "1"]),
        (["true", "yes"], ["true", "yes"]),
        (["٣", "1"], ["٣", "1"]),
    ],
)  # fmt: skip
def test_all_values_of_a_column_are_numbers_or_all_stay_as_they_are_written(
    tmp_path: Path, written: Sequence[str], kept: Sequence[MetadataValue | None]
) -> None:
    content = "\n".join(["id;text;value", *(f"{row};kettle;{one}" for row, one in enumerate(written)), ""])
    documents, done = made_of(tmp_path, "a.csv", content, "value")
    assert [one.metadata.get("value") for one in documents] == kept, done.stderr
    schema = read_dataset(tmp_path / "made").schema
    assert schema == {"value": "keyword" if isinstance(kept[0], str) else "number"}


def test_values_of_json_keep_their_types(tmp_path: Path) -> None:
    lines = [{"id": 1, "text": "a", "zip": "10001", "price": 1.5}, {"id": 2, "text": "b", "zip": "2139", "price": 2}]
    content = "".join(f"{json.dumps(line)}\n" for line in lines)
    documents, _ = made_of(tmp_path, "a.jsonl", content, "zip", "price")
    assert [one.metadata for one in documents] == [{"zip": "10001", "price": 1.5}, {"zip": "2139", "price": 2}]


def test_what_was_changed_or_left_out_is_counted_in_one_table(tmp_path: Path) -> None:
    content = (
        "id,text,day,number,Maker (EU),notes,weight\n"
        f"1,kettle,2024-05-31,1,Ann,{'x' * 40_000},4\n"
        "2,pot,0000-00-00,x,Bob,short,5\n"
        "3,po\x07t,2024-05-31 12:00:00,2,,,\n"
        "4,,,,,,\n"
    )
    documents, done = made_of(tmp_path, "a.csv", content, "day", "number", "Maker (EU)", "notes")
    assert [one.id for one in documents] == ["1", "2", "3"]
    assert read_dataset(tmp_path / "made").schema == {"Maker_EU": "keyword", "day": "keyword", "number": "keyword"}
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stderr.splitlines() if line[:1] == "|"]
    found = {which.replace(f"{tmp_path}/", ""): count for _, count, which in table[2:]}
    assert found == {
        "weight of a.csv": "1",
        "a.csv:4": "1",
        "a.csv:5": "1",
        "Maker (EU) as Maker_EU": "1",
        "day, number": "2",
        "notes": "1",
    }


def test_a_table_of_which_no_column_is_taken_as_text_is_told_how_to_name_one(tmp_path: Path) -> None:
    documents, done = made_of(tmp_path, "staff.tsv", "id\tname\tbio\n1\tAnn\tKeeps bees\n")
    assert (rows(documents), "--text" in done.stderr) == ([("1", "Ann", "")], True)
    _, done = made_of(tmp_path / "b", "b.tsv", "id\ttitle\ttext\tbio\n1\tAnn\tBees\tno\n")
    assert "--text" not in done.stderr


def test_fields_that_would_have_the_same_name_are_refused(tmp_path: Path) -> None:
    _, done = made_of(tmp_path, "a.csv", "id,text,Price (EUR),Price EUR\n1,a,1,2\n", "Price (EUR)", "Price EUR")
    assert (done.exit_code, "Price_EUR" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["価格", "2nd price", "Größe", "x" * 80])
def test_a_column_of_any_name_can_be_metadata(tmp_path: Path, name: str) -> None:
    documents, done = made_of(tmp_path, "a.csv", f"id,text,{name}\n1,a,7\n", name)
    assert [list(one.metadata.values()) for one in documents] == [[7]], done.stderr
    assert f"{name} as " in done.stderr


def test_a_field_of_metadata_may_be_of_one_source_but_not_of_none(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("id,text,price\n2,b,5\n")
    (tmp_path / "asked.csv").write_text("query\nkettle\n")
    (tmp_path / "a.csv").write_text("id,text,colour\n1,a,red\n")
    words = ["datasets", "from", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--to", str(tmp_path / "made")]
    words += ["--queries", str(tmp_path / "asked.csv"), "--metadata"]
    wrong = CliRunner().invoke(app, [*words, "prise"])
    assert (wrong.exit_code, "`prise`" in wrong.stderr, "price of " in wrong.stderr) == (1, True, True)
    assert CliRunner().invoke(app, [*words, "price"]).exit_code == 0
    found = read_dataset(tmp_path / "made").documents()
    assert [one.metadata for one in found] == [{}, {"price": 5}]
