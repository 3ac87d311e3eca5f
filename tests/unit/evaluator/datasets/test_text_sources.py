"""Markdown as Obsidian, Hugo and others write it becomes documents without its marks, and no word is joined or lost."""

from pathlib import Path

import pytest

from evaluator.datasets.field_sources import FieldNames
from evaluator.datasets.placed_documents import ReadingNotes
from evaluator.datasets.text_sources import text_documents


def read(
    folder: Path, files: dict[str, str], *metadata: str, by_heading: bool = False
) -> tuple[dict[str, dict[str, object]], str]:
    """Writes files, and returns their documents by id, and what was reported."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode())
    notes = ReadingNotes()
    fields = FieldNames(metadata=metadata)
    made = {str(value["_id"]): dict(value) for _, value in text_documents(folder, fields, notes, by_heading=by_heading)}
    notes.expect_nothing_wrong()
    return made, "\n".join(" ".join(row) for row in notes.rows)


def title_and_text(folder: Path, content: str) -> tuple[object, object]:
    document = read(folder, {"note.markdown": content})[0]["note.markdown"]
    return document["title"], document["text"]


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("---\ntitle: >-\n  Over two\n  lines\n---\n", "Over two lines"),
        ("---\ntitle: 'It''s here'\n---\n", "It's here"),
        ('---\ntitle: "A \\"quoted\\" one: \\u00e9"\n---\n', 'A "quoted" one: é'),
        ("---\n# a comment first\ntitle: Behind it\n---\n", "Behind it"),
        ("---\n\n'quoted key': x\nTitle: In capitals\n...\n", "In capitals"),
        ("---\r\ntitle: Of Windows\r\n---\r\n", "Of Windows"),
        ("\ufeff---\ntitle: Behind a mark\n--- \n", "Behind a mark"),
        ("---\ntitle: 02139\n---\n", "02139"),
        ("---\ntitle: &name Anchored\nalias: *name\n---\n", "Anchored"),
        ("---\ntags:\n- a\ntext: >\n  ---\n  is no end\ntitle: Last\n---\n", "Last"),
        ('+++\ntitle = "Of Hugo"\ndate = 2024-05-31\n[params]\nweight = 3\n+++\n', "Of Hugo"),
        ("---\n---\n", "Heading"),
        ("---\ntitle:\n---\n", "Heading"),
        ("---\ntitle: [a, b]\n---\n", "Heading"),
    ],
)
def test_front_matter_is_read_as_its_language_and_is_no_text(tmp_path: Path, front: str, title: str) -> None:
    document = title_and_text(tmp_path, f"{front}# Heading\n\nBody.\n")
    assert document == (title, "Body." if title == "Heading" else "Heading\n\nBody.")


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("---\nA sentence between rules.\n---\n\nBody.\n", "A sentence between rules.", "Body."),
        ("---\n\n- a\n- b\n\n---\n\nBody.\n", "note", "a\n\nb\n\nBody."),
        ("---\n\n# Tea\n\nBody: all of it.\n", "Tea", "Body: all of it."),
        ("+++\nno end: of it\n", "note", "+++ no end: of it"),
    ],
)
def test_a_rule_at_the_start_of_a_file_begins_no_front_matter(
    tmp_path: Path, content: str, title: str, text: str
) -> None:
    assert title_and_text(tmp_path, content) == (title, text)


@pytest.mark.parametrize(
    "block",
    [
        "---\ntitle: Tea: a guide\ntags: [a]\n---",
        "---\ntitle: Tea\ntitle: Coffee\n---",
        "---\na: 'open\n---",
        f"---\na: {'[' * 5000}\n---",
        "---\na: &a [*a]\n---",
        "+++\ntitle = Tea\n+++",
    ],
)
def test_broken_front_matter_stays_in_the_text_and_is_reported_but_is_no_title(tmp_path: Path, block: str) -> None:
    made, notes = read(tmp_path, {"note.markdown": f"{block}\n\n# Heading\n\nBody.\n"})
    text = str(made["note.markdown"]["text"])
    assert made["note.markdown"]["title"] == "Heading"
    assert (block[4:-4].strip() in text, text.endswith("Body.")) == (True, True)
    assert f"{tmp_path}/note.markdown:1" in notes


def test_named_keys_of_front_matter_are_metadata_as_written_and_others_are_named(tmp_path: Path) -> None:
    yaml = "---\ntags: [tea, '007']\ndate created: 2024-05-31\nversion: 1.10\ndone: yes\nempty:\n"
    yaml += "params:\n  level: 3\n---\n"
    toml = '+++\ntags = ["tea"]\ndone = true\n[params]\nlevel = 3\nday = 2024-05-31\n+++\n'
    names = ("tags", "date created", "version", "done", "empty", "params.level", "params.day", "absent")
    made, notes = read(tmp_path, {"a.markdown": yaml + "A.", "deep/b.markdown": toml + "B.", "c.txt": "C."}, *names)
    assert {identity: document["metadata"] for identity, document in made.items()} == {
        "a.markdown": {
            "tags": ["tea", "007"], "date_created": "2024-05-31", "version": "1.10", "done": "yes",
            "params_level": "3",
        },
        "deep/b.markdown": {"folder": "deep", "tags": ["tea"], "done": "true", "params_level": "3",
                      "params_day": "2024-05-31"},
        "c.txt": {},
    }  # fmt: skip
    assert not notes
    made, notes = read(tmp_path, {"a.markdown": yaml + "# One\n\nA.\n\n# Two\n\nB."}, "tags", by_heading=True)
    assert [made[identity]["metadata"] for identity in ("a.markdown#one", "a.markdown#two")] == [
        {"tags": ["tea", "007"]}
    ] * 2
    assert f"date created of {tmp_path}" in notes


@pytest.mark.parametrize(
    "bomb",
    [
        "l0: &l0 [x, x]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, 60)) + "a: *l59\n",
        "l0: &l0 {x: x}\n" + "".join(f"l{n}: &l{n} {{x: *l{n - 1}, y: *l{n - 1}}}\n" for n in range(1, 60)) + "a: *l59",
        f"long: &long {'x' * 100_000}\na: [{', '.join(['*long'] * 1_000)}]\n",
    ],
)  # fmt: skip
def test_aliases_that_multiply_what_is_written_are_no_metadata(tmp_path: Path, bomb: str) -> None:
    made, _ = read(tmp_path, {"note.markdown": f"---\n{bomb}\n---\nBody."}, "a")
    assert (made["note.markdown"]["text"], made["note.markdown"]["metadata"]) == (
        "Body.",
        {"a": {}},
    )  # dropped, and counted


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("| a | b |\n|-|-|\n| stem bolts<br>seat clamp | x<br/>y |\n", "a b\n\nstem bolts seat clamp x y"),
        ("| a |\n|-|\n| <ul><li>one</li><li>two</li></ul> |\n", "a\n\none\n\ntwo"),
        ("| a | b | c |\n|-|-|-|\n| 1 | | 3 |\n", "a b c\n\n1 3"),
        ("H<sub>2</sub>O is <b>wa</b>ter<!-- no -->.", "H2O is water."),
        ("<p>H<sub>2</sub>O<br>is <b title='a > b'>wa</b>ter</p><div>a &lt; b</div>", "H2O\nis water\n\na < b"),
        ("The <script> and <textarea> tags, and <style> too.\n\nSeen.", "The and tags, and too.\n\nSeen."),
        ("Tea[^1] [^b] [it][c]\n\n[^1]: Straße.\n[^b]: https://x.y 'Of tea'\n\n[c]: https://z", 
         "Tea^1 ^b it\n\nStraße.\n\nhttps://x.y Of tea"),
        ("<h1>Of HTML</h1>\n<pre>a\n  b</pre>\n\nSeen.", "Of HTML\n\na\n  b\n\nSeen."),
        ("```\n<br>\n\n  a\n```\n> ## Quoted\n> Seen.", "<br>\n\n  a\n\nQuoted\n\nSeen."),
        ('<img src="x.png" alt="A bell"><img src="y.png" alt="A lamp">', "A bell A lamp"),
        ("![A *red* bell](x.png)![A lamp](y.png) and ![](z.png)tea", "A red bell A lamp and tea"),
        ("one  \ntwo\\\nthree\nfour", "one\ntwo\nthree four"),
        ("A ~~cold~~ tea, <https://x.example>, &amp; [[a|b]] `<br>`", "A cold tea, https://x.example, & [[a|b]] <br>"),
        ("\n".join(f"{'  ' * level}- level {level}" for level in range(30)),
         "\n\n".join(f"level {level}" for level in range(30))),
    ],
)  # fmt: skip
def test_words_of_markdown_and_html_are_neither_joined_nor_lost(tmp_path: Path, content: str, text: str) -> None:
    assert title_and_text(tmp_path, content) == ("note", text)


def test_html_that_is_left_open_takes_no_other_text_with_it(tmp_path: Path) -> None:
    content = '> <!-- open\n\nSeen. <b>\n\n> <div class="\n\nAlso. <script>\n\nThen.\n'
    _, text = title_and_text(tmp_path, content)
    assert [part for part in str(text).split("\n\n") if "<" not in part] == ["Seen.", "Also.", "Then."]


def test_a_file_that_is_nested_too_deeply_is_a_fault_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "deep.markdown").write_text("> " * 5_000 + "text")
    notes = ReadingNotes()
    assert list(text_documents(tmp_path, FieldNames(), notes, by_heading=False)) == []
    with pytest.raises(Exception, match=r"deep\.markdown"):
        notes.expect_nothing_wrong()
