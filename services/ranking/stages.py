"""Computes what a fuse or rerank stage makes of rankings, in the gateway and in a replay of its answers. Pure."""

from collections.abc import Mapping, Sequence

from services.contracts.pipelines import Fuse, Rerank
from services.contracts.scored import Ranking
from services.ranking.fusion import Leg, mixed, reciprocal_rank, weighted


def fused(stage: Fuse, inputs: Sequence[Ranking | None], least_scores: Sequence[float | None]) -> Ranking:
    """Fuses the rankings of a stage's inputs, in their order; None is an input that failed.

    `least_scores`: the least score that each input can give, None without such a bound.
    """
    share = 1.0 if stage.method == "rrf" else 1.0 / len(inputs)
    weights = stage.weights or (share,) * len(inputs)
    legs = [
        Leg(ranking, weight, least)
        for ranking, weight, least in zip(inputs, weights, least_scores, strict=True)
        if ranking is not None
    ]
    return reciprocal_rank(legs, stage.k) if stage.method == "rrf" else weighted(legs, stage.normalisation)


def reranked(stage: Rerank, before: Ranking, scores: Mapping[str, float], recommended: float) -> Ranking:
    """Mixes a model's scores of some candidates into their ranking.

    `recommended`: the weight where the stage names none.
    """
    return mixed(before, scores, recommended if stage.weight is None else stage.weight)
