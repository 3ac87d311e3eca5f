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
