"""The points of a grid are pipelines with the settings of the run's own, and none stands twice."""

from collections.abc import Iterator, Mapping

from evaluator.attribution.candidates import CandidatesReport
from evaluator.attribution.collect import probes_of
from evaluator.replay.grid import Grid, points
from services.contracts.pipelines import Fuse, Pipeline, Rerank, Retrieve

LEXICAL = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 100}
DENSE = {"kind": "retrieve", "id": "dense", "backend": "dense", "top": 100}
SKIPPED = [{**LEXICAL, "on_failure": "skip"}, {**DENSE, "on_failure": "skip"}]
RERANK = {"kind": "rerank", "top": 100}
SMALL = Grid(leg_depths=(50,), k=(60,), weights=(0.5,), normalisations=(), rerank_depths=(20,), rerank_weights=(0.4,))


def collected(*pipelines: list[Mapping[str, object]]) -> CandidatesReport:
    """What attributing a run of these stages leaves."""
    named = {f"p{at}": Pipeline.model_validate({"name": f"p{at}", "stages": one}) for at, one in enumerate(pipelines)}
    probes = probes_of(list(named.values()), frozenset({"dense"}))
    return CandidatesReport(
        made_from={},
        pipelines=named,
        legs=probes.legs,
        rerankers=probes.rerankers,
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
    assert (min(deepest), max(deepest)) == (10, 256)  # as deep as the beam


def test_of_legs_that_differ_in_the_beam_alone_the_deepest_is_taken() -> None:
    found = points(SMALL, collected([LEXICAL], [DENSE], [{**DENSE, "beam": 400}]))
    assert {one.beam for one in stages(found) if isinstance(one, Retrieve) and one.backend == "dense"} == {400}


def test_an_exact_and_an_approximate_leg_of_a_backend_are_both_tried_but_never_fused() -> None:
    found = points(SMALL, collected([LEXICAL], [DENSE], [{**DENSE, "exact": True}]))
    shapes = [tuple((one.backend, one.exact) for one in _legs(pipeline)) for pipeline in found]
    assert sorted(shapes) == [
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
    assert len(found) == 6


def test_a_leg_that_stood_only_in_fusions_is_tried_alone_as_it_stood_there() -> None:
    found = points(SMALL, collected([{"kind": "fuse", "inputs": SKIPPED}]))
    assert [one.on_failure for one in stages(found)] == ["skip"] * 4


def _legs(pipeline: Pipeline) -> list[Retrieve]:
    return [one.stage for one in pipeline.identified if isinstance(one.stage, Retrieve)]
