"""The published figures: of sets that exist, as printed, and equal only to the last decimal printed."""

import pytest

from evaluator.datasets.catalogue import load_catalogue
from evaluator.errors import EvaluationError
from evaluator.parity.published import (
    encoders,
    equals_published,
    figures_on,
    given_figure,
    presets,
    published_figures,
    published_systems,
)
from services.inference.profiles import MODELS_FILE, load_encoder


def test_every_dataset_with_a_figure_is_in_the_catalogue() -> None:
    known = load_catalogue().sets
    for preset in presets():
        with pytest.raises(EvaluationError) as refused:
            published_figures(preset, "nowhere")
        listed = str(refused.value).partition("figures for: ")[2].rstrip(")").split(", ")
        assert set(listed) <= set(known)
        assert {"scifact", "nfcorpus"} <= set(listed)


def test_every_system_with_a_figure_has_a_title_and_each_has_figures_of_catalogued_sets() -> None:
    by_set = {name: figures_on(name) for name in load_catalogue().sets}
    assert {system for figures in by_set.values() for system in figures} == set(published_systems())
    assert set(presets()) < set(published_systems())
    assert by_set["scifact"]["splade-v3"] == {"nDCG@10": "0.7140", "Recall@100": "0.9360"}
    assert by_set["cqadupstack"]["paper-bm25-ce"] == {"nDCG@10": "0.370"}
    assert figures_on("nowhere") == {}


def test_figures_come_with_the_settings_and_the_source_that_made_them() -> None:
    figures = published_figures("anserini-flat", "scifact")
    assert figures.figures == {"nDCG@10": "0.6789", "Recall@100": "0.9253"}
    assert (figures.documented["k1"], figures.documented["b"], figures.documented["fields"]) == ("0.9", "0.4", "flat")
    assert published_figures("beir", "nfcorpus").documented["k1"] == "1.5"
    assert published_figures("beir", "scifact").documented["k1"] == "1.2"
    assert "beir-cellar" in published_figures("beir", "scifact").source


def test_encoders_come_with_the_settings_that_their_profiles_have_here() -> None:
    for name in encoders():
        profile = load_encoder(MODELS_FILE, name)
        documented = published_figures(name, "scifact").documented
        elsewhere = {"model": name, "passages": "off"}
        settings = {setting: str(getattr(profile, setting)) for setting in documented if setting not in elsewhere}
        assert elsewhere | settings == documented
    assert published_figures("bge-small-en-v1.5", "nfcorpus").figures == {"nDCG@10": "0.34264"}
    with pytest.raises(EvaluationError, match=r"no published figure of e5-small-v2 on arguana; .*nfcorpus, scifact"):
        published_figures("e5-small-v2", "arguana")


@pytest.mark.parametrize(
    ("figure", "printed", "equal"),
    [(0.69064, "0.6906", True), (0.69066, "0.6906", False), (0.3444, "0.344", True), (0.3446, "0.344", False)],
)
def test_equal_means_equal_in_every_decimal_that_was_printed(figure: float, printed: str, equal: bool) -> None:
    assert equals_published(figure, printed) is equal


@pytest.mark.parametrize(
    ("preset", "metric", "figure", "said"),
    [
        ("bm25", "nDCG@10", "0.6906", "bm25.*beir, anserini-flat"),
        ("beir", "MAP", "0.6906", "Recall@100"),
        ("beir", "nDCG@10", "0.69", "decimals"),
        ("beir", "nDCG@10", "69.06", "decimals"),
    ],
)
def test_a_figure_that_cannot_be_compared_is_refused(preset: str, metric: str, figure: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        given_figure(preset, metric, figure)
