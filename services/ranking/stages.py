"""Applies fuse and rerank stages to rankings, in the gateway and in a replay of its answers. Pure."""

from services.contracts.pipelines import Fuse, Rerank
from services.contracts.scored import Ranking
from services.ranking.fusion import AlignedLegs, Mixture


def fused(stage: Fuse, legs: AlignedLegs) -> Ranking:
    """Fuses the rankings of a stage's inputs, in their order."""
    share = 1.0 if stage.method == "rrf" else 1.0 / len(stage.inputs)
    weights = stage.weights or (share,) * len(stage.inputs)
    if stage.method == "rrf":
        return legs.reciprocal_rank(weights, stage.k)
    return legs.weighted(weights, stage.normalisation)


def fused_least_score(stage: Fuse) -> float | None:
    """Returns the least score that a fuse can give: none for a sum of z-scores, 0 for one of non-negative terms."""
    return None if stage.method == "weighted" and stage.normalisation == "z-score" else 0.0


def needs_least_scores(stage: Fuse) -> bool:
    """Returns whether a fuse needs the least score of every input."""
    return stage.method == "weighted" and stage.normalisation == "theoretical-min"


def reranked(stage: Rerank, mixture: Mixture, recommended: float) -> Ranking:
    """Mixes a model's scores of some candidates into their ranking. `recommended`: the weight where none is named."""
    return mixture.at(recommended if stage.weight is None else stage.weight)
