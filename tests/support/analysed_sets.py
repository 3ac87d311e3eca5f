"""Builds the figures of sets and pipelines as an analysis holds them."""

from evaluator.analyses.analysing import length_distribution
from evaluator.analyses.analysis_report import LengthDistribution, RankingFigures, SetAnalysis, SetStatistics


def ranking_figures(ndcg: float | None, capped: float | None = 0.5, depth: int = 100) -> RankingFigures:
    return RankingFigures(
        run="20261124T120000000Z-shop-00000000",
        run_file_sha256="0" * 64,
        depth=depth,
        lost=0,
        degraded=0,
        faults=(),
        ndcg_at_10=ndcg,
        recall_at_100=capped,
        capped_recall_at_100=capped,
        hole_at_10=0.25,
    )


def lengths(*words: int) -> LengthDistribution:
    return length_distribution([str(at) for at in range(len(words))], {str(at): one for at, one in enumerate(words)})


def analysed_set(name: str, part_of: str | None = None, **ndcg: float | None) -> SetAnalysis:
    return SetAnalysis(
        name=name,
        part_of=part_of,
        directory=f"../{name}",
        split="test",
        dataset_sha256={},
        statistics=SetStatistics(
            documents=90, queries=60, judged_a_query=1, relevant_a_query=1, query_words=2, document_words=3.5
        ),
        warnings=(),
        queries=60,
        pipelines={pipeline: ranking_figures(value) for pipeline, value in ndcg.items()},
        relevant_lengths=lengths(5, 10, 20, 40),
        lengths={pipeline: lengths(0, 7, 7, 300) for pipeline in ndcg},
    )
