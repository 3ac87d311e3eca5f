"""Highlights: what is marked are the words of the query, at the offsets that are returned."""

import time
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.base import Language
from services.contracts.documents import Document
from services.contracts.highlights import Fragment
from services.lexical.analysis import words_of
from services.lexical.highlighting import LONGEST_FRAGMENT, MOST_SEARCHED, highlights_of

WORDS = ("brake", "Brakes", "braking", "the", "lever's", "caf\u00e9", "cafe\u0301", "3.14", "U.S.A.", "word", "a" * 300)
texts = st.lists(st.sampled_from(WORDS) | st.sampled_from((". ", "\n", "! ", ", ")), max_size=200).map(" ".join)


def marked(fragment: Fragment) -> list[str]:
    return [fragment.text[start:end] for start, end in fragment.matches]


@given(text=texts, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
def test_every_mark_is_a_word_of_the_query_and_every_fragment_has_one(text: str, query: str) -> None:
    found = highlights_of(Document(id="a", text=text), query, 10, "english").text
    terms = set(words_of(query, "english"))
    whole = unicodedata.normalize("NFC", text)
    for fragment in found:
        assert whole[fragment.start :].startswith(fragment.text)
        assert fragment.matches
        assert all(set(words_of(word, "english")) & terms for word in marked(fragment))
        assert len(fragment.text) <= LONGEST_FRAGMENT + 300
    if not found:
        assert not terms & {term for word in text.split() if len(word) < 256 for term in words_of(word, "english")}


def test_the_fragments_with_most_words_of_the_query_come_first() -> None:
    text = "Brakes squeal. Nothing here. The brake lever moves the brake. A lever."
    found = highlights_of(Document(id="a", title="All about brakes", text=text), "braking levers", 2, "english")
    assert [marked(one) for one in found.text] == [["brake", "lever", "brake"], ["Brakes"]]
    assert [one.start for one in found.text] == [29, 0]
    assert [(one.text, marked(one)) for one in found.title] == [("All about brakes", ["brakes"])]


def test_a_long_sentence_is_shown_around_its_words() -> None:
    text = " ".join(["word"] * 100 + ["brake"] + ["word"] * 100)
    (fragment,) = highlights_of(Document(id="a", text=text), "brake", 3, "english").text
    assert marked(fragment) == ["brake"]
    assert len(fragment.text) <= LONGEST_FRAGMENT
    assert fragment.text.startswith("word ")
    assert fragment.text.endswith(" word")


@pytest.mark.parametrize(
    ("language", "text", "query", "expected"),
    [
        ("german", "Im Dorf. Die Häuser waren groß.", "ein großes Haus", ["Häuser", "groß"]),
        ("french", "Au port. Il aimait l’école.", "les écoles", ["l’école"]),
        # Bigrams that overlap are one mark; each sentence is a fragment.
        ("cjk", "大阪の話。東京都の人口は多い。", "東京都の人", ["東京都の人"]),
    ],
)
def test_words_are_marked_as_the_language_of_the_search_compares_them(
    language: Language, text: str, query: str, expected: list[str]
) -> None:
    (fragment,) = highlights_of(Document(id="a", text=text), query, 1, language).text
    assert marked(fragment) == expected
    assert fragment.start == max(text.find(".", 0, 10), text.find("。", 0, 10)) + (1 if language == "cjk" else 2)


@pytest.mark.parametrize(
    ("language", "text", "query", "fragment", "marks"),
    [
        ("english", "पहला वाक्य।यह हिन्दी है।", "हिन्दी", "यह हिन्दी है।", ["हिन्दी"]),
        ("english", "پہلا جملہ۔ یہ کِتاب ہے۔", "کِتاب", "یہ کِتاب ہے۔", ["کِتاب"]),
        ("english", "አንድ።ሁለት ሰላም።", "ሰላም", "ሁለት ሰላም።", ["ሰላም"]),
        ("english", "ဟိုဟာ။ မြန်မာ ဘာသာ။", "မြန်မာ", "မြန်မာ ဘာသာ။", ["မြန်မာ"]),
        ("english", "ما هذا؟ كِتاب هنا.", "كِتاب", "كِتاب هنا.", ["كِتاب"]),
        ("english", "Hot 👩🏽\u200d🚀🔥 here.", "👩🏽\u200d🚀", "Hot 👩🏽\u200d🚀🔥 here.", ["👩🏽\u200d🚀"]),
        ("cjk", "葛\U000e0100城市の話。", "葛\U000e0100城", "葛\U000e0100城市の話。", ["葛\U000e0100城市の話"]),
    ],
)
def test_words_and_sentences_of_any_script_are_whole(
    language: Language, text: str, query: str, fragment: str, marks: list[str]
) -> None:
    (found,) = highlights_of(Document(id="a", text=text), query, 1, language).text
    assert (found.text, marked(found)) == (fragment, marks)


@given(
    parts=st.lists(
        st.sampled_from(("हिन्दी", "é", "e\u0323\u0302", "คำ", "👍🏽", "👩\u200d💻", "中", "a", " ", "। ", ".")),
        max_size=300,
    ),
    query=st.sampled_from(("हिन्दी", "é", "ệ", "คำ", "👍🏽", "👩\u200d💻", "中", "a")),
    language=st.sampled_from(("english", "cjk")),
)
def test_no_mark_or_fragment_begins_or_ends_within_a_character_as_read(
    parts: list[str], query: str, language: Language
) -> None:
    text = unicodedata.normalize("NFC", "".join(parts))
    borders = {one.start() for one in regex.finditer(r"\X", text)} | {len(text)}
    for fragment in highlights_of(Document(id="a", text=text), query, 10, language).text:
        at = fragment.start
        assert {at, at + len(fragment.text)} <= borders
        assert {at + place for match in fragment.matches for place in match} <= borders


def test_a_word_at_the_end_of_what_is_searched_is_not_cut() -> None:
    text = "a " * ((MOST_SEARCHED - 4) // 2) + "brake" + "\u0301" + "s and brake"
    found = highlights_of(Document(id="a", text=text), "brak brake", 3, "english")
    assert found.text == ()


@pytest.mark.parametrize("text", ["brake pads " * 700_000, "brake.\n" * 1_000_000, "." * 8_000_000, "a.a." * 2_000_000])
def test_a_long_text_is_searched_as_far_as_its_first_part(text: str) -> None:
    started = time.process_time()
    highlights_of(Document(id="a", text=text), "brake pads", 3, "english")
    assert time.process_time() - started < 2
