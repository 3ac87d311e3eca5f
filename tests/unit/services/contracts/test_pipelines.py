"""A pipeline that crossed the wire is the pipeline that was sent."""

import pytest

from services.contracts.pipelines import Pipeline

LEGS = [{"kind": "retrieve", "backend": "lexical"}, {"kind": "retrieve", "backend": "dense"}]


@pytest.mark.parametrize("fuse", [{"method": "rrf", "k": 10}, {"method": "weighted", "normalisation": "z-score"}])
def test_a_pipeline_written_out_in_full_reads_back_the_same(fuse: dict[str, object]) -> None:
    pipeline = Pipeline.model_validate({"name": "hybrid", "stages": [{"kind": "fuse", "inputs": LEGS, **fuse}]})
    again = Pipeline.model_validate_json(pipeline.model_dump_json())
    assert again == pipeline
    assert again.fingerprint == pipeline.fingerprint


@pytest.mark.parametrize("fuse", [{"method": "rrf", "normalisation": "z-score"}, {"method": "weighted", "k": 10}])
def test_a_setting_of_the_other_fusion_method_is_refused(fuse: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="belongs to method"):
        Pipeline.model_validate({"name": "hybrid", "stages": [{"kind": "fuse", "inputs": LEGS, **fuse}]})


def test_every_stage_has_its_given_id_or_its_kind_and_place_inputs_before_their_fuse() -> None:
    nested = {"kind": "fuse", "inputs": LEGS}
    stages = [
        {"kind": "fuse", "id": "all", "inputs": [nested, {"kind": "retrieve", "id": "bm25", "backend": "lexical"}]}
    ]
    pipeline = Pipeline.model_validate(
        {"name": "mine", "stages": [*stages, {"kind": "rerank"}, {"kind": "cut", "top": 5}]}
    )
    given = [one.id for one in pipeline.identified]
    assert given == ["retrieve-1.1.1", "retrieve-1.1.2", "fuse-1.1", "bm25", "all", "rerank-2", "cut-3"]
    assert pipeline.identified is pipeline.identified
    assert [one.stage for one in pipeline.identified][-2:] == list(pipeline.stages[1:])
