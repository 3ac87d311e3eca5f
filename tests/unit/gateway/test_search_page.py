"""What the page reads from its address, and what it says of two lists."""

from collections.abc import Mapping

import pytest

from gateway.search.catalog import parse_pipeline
from gateway.search_page.form import Offered, PageSearch, TypedForm
from gateway.search_page.sides import (
    EXCERPT,
    Movement,
    ShownStage,
    excerpt,
    movement,
    shown_excerpt,
    shown_stages,
    shown_times,
)
from services.chassis.errors import BadInput
from services.contracts.pipelines import Pipeline
from services.contracts.query import SearchHit

OFFERED = Offered(("demo", "other"), ("bm25", "dense", "hybrid"))


def asked(**parameters: str) -> PageSearch:
    return TypedForm.of({"query": "fruit", **parameters}, OFFERED).checked()


def test_a_first_visit_offers_the_default_pipeline_beside_another() -> None:
    form = TypedForm.of({}, OFFERED)
    assert (form.submitted, form.collection, form.left, form.right, form.top) == (False, "demo", "bm25", "hybrid", "10")


def test_with_one_pipeline_there_is_nothing_to_compare_with() -> None:
    form = TypedForm.of({}, Offered((), ("mine",)))
    assert (form.collection, form.left, form.right) == ("", "mine", "")


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"query": " "}, "query: must not be empty or only white space"),
        ({"query": "a\x00"}, "query: must not contain NUL"),
        ({"top": "101"}, "top: Input should be less than or equal to 100"),
        ({"top": "many"}, "top: Input should be a valid integer"),
        ({"collection": ""}, "collection: String should match pattern"),
        ({"seed": "-1"}, "seed: Input should be greater than or equal to 0"),
        ({"right": "", "blind": "1"}, "a blind comparison takes two pipelines"),
    ],
)
def test_a_form_that_cannot_be_searched_names_the_field(parameters: Mapping[str, str], fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        asked(**parameters)
    assert str(caught.value).startswith(fault)


def test_seeds_swap_about_half_of_the_blind_comparisons_and_a_seed_always_the_same() -> None:
    sides = [asked(blind="1", seed=str(seed)).pipelines for seed in range(400)]
    assert sides == [asked(blind="1", seed=str(seed)).pipelines for seed in range(400)]
    assert 160 < sides.count(("hybrid", "bm25")) < 240


def test_the_address_of_the_opened_sides_keeps_their_order() -> None:
    form = TypedForm.of({"query": "a&b", "blind": "1", "seed": "3", "top": "5"}, OFFERED)
    assert form.opened(("hybrid", "bm25")) == "?collection=demo&query=a%26b&top=5&left=hybrid&right=bm25"


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (1, Movement("up", "▲1", "1 place higher than on the left")),
        (2, Movement("same", "=", "same place as on the left")),
        (9, Movement("down", "▼7", "7 places lower than on the left")),
    ],
)
def test_a_hit_of_both_lists_says_how_far_it_moved(rank: int, expected: Movement) -> None:
    assert movement("b", rank, {"a": 1, "b": 2}, "left") == expected


def test_a_hit_of_one_list_says_so_and_how_many_hits_the_other_has() -> None:
    assert movement("c", 1, {"a": 1, "b": 2}, "right").words == "not among the 2 hits on the right"
    assert movement("c", 1, {"a": 1, "b": 2}, "right", counted=False).words == "not on the right"
    assert movement("c", 1, {"a": 1}, "right") == Movement("only", "only here", "not among the one hit on the right")


def test_a_long_text_is_cut_between_words() -> None:
    shown = excerpt("word " * 200)
    assert len(shown) <= EXCERPT + 2
    assert shown.endswith("word …")


@pytest.mark.parametrize("text", ["字" * 5_000, "some words, then " + "x" * 5_000])
def test_a_text_without_spaces_is_cut_within(text: str) -> None:
    assert excerpt(text) == f"{text[:EXCERPT]} …"


def test_a_text_is_not_cut_between_a_letter_and_its_mark() -> None:
    assert excerpt("x" + "ที่" * 200) == f"x{'ที่' * 93} …"


def test_parts_of_stages_are_told_from_stages_with_dots() -> None:
    shown = shown_times({"bm25": 4.0, "bm25.wait": 1.0, "gateway.wait": 0.0, "total": 4.0})
    assert [(one.name, one.part) for one in shown] == [
        ("bm25", False),
        ("bm25.wait", True),
        ("gateway.wait", False),
        ("total", False),
    ]


def test_stages_show_what_their_file_gives_them() -> None:
    pipeline = parse_pipeline(
        "{name: x, stages: [{kind: fuse, k: 20, inputs: [{kind: retrieve, id: bm25, backend: lexical, top: 200}, "
        "{kind: retrieve, backend: dense}]}, {kind: cut, top: 5}]}"
    )
    assert isinstance(pipeline, Pipeline)
    assert shown_stages(pipeline) == (
        ShownStage("bm25", "retrieve", "backend lexical, top 200"),
        ShownStage("retrieve-1.2", "retrieve", "backend dense"),
        ShownStage("fuse-1", "fuse", "of bm25 and retrieve-1.2, k 20"),
        ShownStage("cut-2", "cut", "top 5"),
    )


def test_the_best_fragment_is_shown_with_its_marks_or_else_the_start_of_the_text() -> None:
    fragment = {"start": 6, "text": "A bent rim.", "matches": [[2, 6], [7, 10]]}
    hit = {"id": "a", "rank": 1, "score": 1.0, "text": "Look! A bent rim. Or not."}
    shown = shown_excerpt(SearchHit.model_validate({**hit, "highlights": {"text": [fragment]}}))
    assert shown == (("… ", False), ("A ", False), ("bent", True), (" ", False), ("rim", True), (". …", False))
    for without in (hit, {**hit, "highlights": {"text": []}}):
        assert shown_excerpt(SearchHit.model_validate(without)) == ((hit["text"], False),)
    assert shown_excerpt(SearchHit(id="a", rank=1, score=1.0)) == ()
