"""The points of a grid are pipelines with the settings of the run's own, and none stands twice."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from evaluator.attribution.candidates import CandidatesReport
from evaluator.attribution.collect import probes_of
from evaluator.errors import EvaluationError
from evaluator.replay.grid import Grid, points
from services.contracts.base import Wire
from services.contracts.pipelines import Fuse, Pipeline, Rerank, Retrieve

LEXICAL = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 100}
DENSE = {"kind": "retrieve", "id": "dense", "backend": "dense", "top": 100}
SKIPPED = [{**LEXICAL, "on_failure": "skip"}, {**DENSE, "on_failure": "skip"}]
LEGS_OF_TITLES = [{**LEXICAL, "id": f"title-{at}", "preset": f"title-{at}"} for at in range(2)]
RERANK = {"kind": "rerank", "top": 100}
SMALL = Grid(leg_depths=(50,), k=(60,), weights=(0.5,), normalisations=(), rerank_depths=(20,), rerank_weights=(0.4,))


def collected(*pipelines: Sequence[Mapping[str, object]]) -> CandidatesReport:
    """What attributing a run of these stages leaves."""
    named = {f"p{at}": Pipeline.model_validate({"name": f"p{at}", "stages": one}) for at, one in enumerate(pipelines)}
    probes = probes_of(list(named.values()), frozenset({"dense"}))
    return CandidatesReport(
        made_from={},
        pipelines=named,
        legs=probes.legs,
        rerankers=tuple(probes.rerankers),
        top=10,
        queries=1,
        failed=0,
    )


def stages(found: list[Pipeline]) -> Iterator[Retrieve | Rerank]:
    for pipeline in found:
        yield from (one.stage for one in pipeline.identified if isinstance(one.stage, Retrieve | Rerank))


def test_no_point_of_a_grid_stands_twice_and_none_is_deeper_than_it_was_asked() -> None:
    found = points(Grid(), collected([{"kind": "fuse", "inputs": SKIPPED}, RERANK]))
    assert len({one.fingerprint for one in found}) == len(found) > 500
    deepest = {one.top for one in stages(found) if one.backend == "dense"}
    assert (min(deepest), max(deepest)) == (10, 240)  # as deep as the beam reaches


def test_of_legs_that_differ_in_the_beam_alone_the_deepest_is_taken() -> None:
    found = points(SMALL, collected([LEXICAL], [DENSE], [{**DENSE, "beam": 400}]))
    fused = [_legs(pipeline) for pipeline in found if len(_legs(pipeline)) > 1]
    assert [leg.beam for legs in fused for leg in legs if leg.backend == "dense"] == [400, 400]


def test_the_pipelines_of_the_run_are_points_whatever_the_grid() -> None:
    nested = {"kind": "fuse", "id": "both", "k": 7, "inputs": [*SKIPPED, {"kind": "fuse", "inputs": LEGS_OF_TITLES}]}
    run = collected([LEXICAL], [nested, {"kind": "cut", "top": 30}, {**RERANK, "id": "second", "weight": 0.3}])
    found = points(SMALL, run)
    for own, point in zip(run.pipelines.values(), found, strict=False):
        assert [_content(one) for one in point.stages] == [_content(one) for one in own.stages]


def test_a_pipeline_of_the_run_with_a_leg_shallower_than_the_answers_is_no_point() -> None:
    found = points(SMALL, collected([LEXICAL], [{**LEXICAL, "top": 5}, {**RERANK, "top": 5}]))
    assert min(one.top for one in stages(found) if isinstance(one, Retrieve)) == 20
    assert len(found) == 1 + 1 + 2 * 2  # as it is, as deep as re-rankings go, and these at two depths and weights


def test_a_reranker_is_tried_with_and_without_passages_as_the_run_has_it() -> None:
    passages = {"tokens": 64, "overlap": 16}
    found = points(SMALL, collected([LEXICAL, RERANK], [LEXICAL, {**RERANK, "passages": passages}]))
    tried = {(one.top, one.weight, one.passages is None) for one in stages(found) if isinstance(one, Rerank)}
    assert tried == {(top, weight, whole) for top in (20, 100) for weight in (0.4, None) for whole in (True, False)}


def test_the_values_of_the_runs_pipelines_are_tried_beside_those_of_the_grid() -> None:
    fuse = {"kind": "fuse", "method": "weighted", "normalisation": "z-score", "weights": [3.0, 1.0], "inputs": SKIPPED}
    found = points(
        SMALL.model_copy(update={"normalisations": ("min-max",)}), collected([fuse, {**RERANK, "weight": 0.3}])
    )
    fusions = [one for pipeline in found if isinstance(one := pipeline.identified.source.stage, Fuse)]
    assert {one.weights for one in fusions} == {(3.0, 1.0), (0.5, 0.5), (0.75, 0.25)}
    assert {one.normalisation for one in fusions if one.method == "weighted"} == {"z-score", "min-max"}
    assert {leg.top for one in fusions for leg in one.inputs if isinstance(leg, Retrieve)} == {50, 100}
    assert {(one.top, one.weight) for one in stages(found) if isinstance(one, Rerank)} == {
        (top, weight) for top in (20, 100) for weight in (0.3, 0.4)
    }


def test_a_list_that_the_grid_leaves_empty_stays_empty() -> None:
    found = points(SMALL.model_copy(update={"rerank_depths": ()}), collected([LEXICAL, RERANK]))
    assert [len(one.stages) for one in found] == [2, 1]  # the run's own, and without its re-ranker


def test_more_legs_than_a_fusion_takes_are_refused() -> None:
    presets = [{**LEXICAL, "id": None, "preset": f"{'p' * 60}{number}"} for number in range(9)]
    with pytest.raises(EvaluationError, match=r"9 backends.* 8 "):
        points(SMALL, collected(*([one] for one in presets)))


def test_an_exact_and_an_approximate_leg_of_a_backend_are_both_tried_but_never_fused() -> None:
    found = points(SMALL, collected([LEXICAL], [DENSE], [{**DENSE, "exact": True}]))
    shapes = [tuple((one.backend, one.exact) for one in _legs(pipeline)) for pipeline in found]
    assert sorted(set(shapes)) == [
        (("dense", False),),
        (("dense", True),),
        (("lexical", False),),
        (("lexical", False), ("dense", False)),
        (("lexical", False), ("dense", True)),
    ]


def test_points_keep_what_the_pipelines_of_the_run_do_on_a_failure() -> None:
    fuse = {"kind": "fuse", "inputs": SKIPPED}
    found = points(SMALL, collected([LEXICAL, RERANK], [DENSE], [fuse, {**RERANK, "on_failure": "skip"}]))
    for pipeline in found:
        fused = isinstance(pipeline.identified.source.stage, Fuse)
        assert {one.on_failure for one in stages([pipeline])} == {"skip" if fused else "fail"}


def test_a_leg_that_stood_only_in_fusions_is_tried_alone_as_it_stood_there() -> None:
    found = points(SMALL, collected([{"kind": "fuse", "inputs": SKIPPED}]))
    assert {one.on_failure for one in stages(found)} == {"skip"}
    assert {"lexical", "dense"} == {
        one.backend for pipeline in found if len(_legs(pipeline)) == 1 for one in _legs(pipeline)
    }


def _legs(pipeline: Pipeline) -> list[Retrieve]:
    return [one.stage for one in pipeline.identified if isinstance(one.stage, Retrieve)]


def _content(stage: Wire) -> object:
    return _without_ids(stage.model_dump())


def _without_ids(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_ids(one) for key, one in value.items() if key != "id"}
    return [_without_ids(one) for one in value] if isinstance(value, list | tuple) else value
