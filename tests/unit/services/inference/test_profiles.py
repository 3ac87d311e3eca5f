"""Checks that models.yaml is parsed, or refused in one sentence that names every invalid field."""

from pathlib import Path

import pytest
import yaml

from services.inference.digests import folder_mismatch
from services.inference.profiles import (
    MODELS_FILE,
    ROOT,
    EncoderProfile,
    HubSource,
    ModelError,
    load_cross_encoder,
    load_encoder,
    load_profiles,
)
from tests.support.models import CROSS_ENCODER, ENCODER


@pytest.fixture
def listed():
    """Returns the first model of the shipped list, as data that a test may change."""
    return yaml.safe_load(MODELS_FILE.read_text())["models"][0]


@pytest.fixture
def file(tmp_path):
    def write(*models: object) -> Path:
        path: Path = tmp_path / "models.yaml"
        path.write_text(yaml.safe_dump({"models": list(models)}))
        return path

    return write


def test_the_shipped_encoder_is_as_its_authors_use_it():
    profile = load_encoder(MODELS_FILE, ENCODER)
    assert (profile.dimension, profile.pooling, profile.normalise, profile.max_tokens) == (384, "mean", True, 256)
    assert (profile.query_prefix, profile.passage_prefix) == ("", "")
    assert [source.kind for source in profile.sources] == ["directory", "hub", "wheel"]
    assert profile.batchable


def test_the_committed_cross_encoder_has_the_pinned_sha256():
    profile = load_cross_encoder(MODELS_FILE, CROSS_ENCODER)
    assert folder_mismatch(profile, ROOT / "deploy" / "models" / CROSS_ENCODER) is None


def test_a_fresh_clone_gets_every_default_model_without_a_hub():
    for profile in load_profiles(MODELS_FILE).values():
        if profile.default:
            assert any(not isinstance(source, HubSource) for source in profile.sources)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda m: m.update(poolling="mean"), r"models\.0\.encoder\.poolling"),
        (lambda m: m.update(kind="decoder"), "'encoder', 'cross-encoder'"),
        (lambda m: m.pop("dimension"), "dimension: "),
        (lambda m: m.update(max_tokens=0), "max_tokens: "),
        (lambda m: m["files"].pop("tokenizer.json"), r"tokenizer\.json"),
        (lambda m: m["files"].update({"../passwd": "0" * 64}), "should match pattern"),
        (lambda m: m["files"].update({"model.onnx": "abc"}), "should match pattern"),
        (lambda m: m["sources"][1].update(revision="main"), "should match pattern"),
        (lambda m: m["sources"][2].update(folder="../up"), "should match pattern"),
        (lambda m: m.update(sources=[]), "at least 1 item"),
        (lambda m: m.pop("trained_on"), "trained_on: "),
        (lambda m: m.update(trained_on=[]), "trained_on"),
        (lambda m: m.update(trained_on=["MS MARCO", ""]), "trained_on"),
        (lambda m: m.update(trained_on="MS MARCO"), "its card does not say"),
    ],
)
def test_an_invalid_entry_is_refused_with_its_field(listed, file, spoil, complaint):
    spoil(listed)
    with pytest.raises(ModelError, match=complaint):
        load_profiles(file(listed))


def test_a_name_used_twice_is_refused(listed, file):
    with pytest.raises(ModelError, match="twice"):
        load_profiles(file(listed, listed))


def test_a_file_that_is_no_yaml_or_not_there_is_refused_by_its_path(tmp_path):
    with pytest.raises(ModelError, match=r"nowhere\.yaml"):
        load_profiles(tmp_path / "nowhere.yaml")
    (tmp_path / "bad.yaml").write_text("models: [")
    with pytest.raises(ModelError, match=r"bad\.yaml"):
        load_profiles(tmp_path / "bad.yaml")
    (tmp_path / "bad.yaml").write_text("models: []", encoding="utf-16")
    with pytest.raises(ModelError, match=r"bad\.yaml.*UTF-16"):
        load_profiles(tmp_path / "bad.yaml")


def test_the_wrong_kind_or_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ModelError, match="of kind cross-encoder; an encoder is needed"):
        load_encoder(MODELS_FILE, CROSS_ENCODER)
    with pytest.raises(ModelError, match="of kind encoder; a cross-encoder is needed"):
        load_cross_encoder(MODELS_FILE, ENCODER)
    with pytest.raises(ModelError, match=r"smollm2.*no service"):
        load_encoder(MODELS_FILE, "smollm2-135m-instruct")
    with pytest.raises(ModelError, match=f"gpt.*{ENCODER}, {ENCODER}-int8, "):
        load_encoder(MODELS_FILE, "gpt")


def test_only_dynamic_quantisation_is_not_batchable(listed):
    for precision, batchable in {
        "fp32": True,
        "int8-weights": True,
        "int8-static": True,
        "int8-dynamic": False,
    }.items():
        assert EncoderProfile.model_validate(listed | {"precision": precision}).batchable is batchable
