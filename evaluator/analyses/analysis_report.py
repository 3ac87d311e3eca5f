"""Defines analysis.json: every figure of an analysis, from which its tables, charts and page are made."""

from typing import Literal

from pydantic import FiniteFloat

from evaluator.datasets.added_judgments import AddedJudgments
from evaluator.parity.published import PublishedSystem
from evaluator.runs.latency import Timed
from services.contracts.base import Count, Wire


class RejudgedFigures(Wire):
    """Figures of a ranking after judgments were added."""

    ndcg_at_10: FiniteFloat | None
    hole_at_10: FiniteFloat | None


class ServedFigures(Wire):
    """What a query of a pipeline took and cost, one at a time, as in its run's report.

    Milliseconds from sending to the last byte read. null: not measured.
    """

    p50_ms: FiniteFloat | None
    p95_ms: FiniteFloat | None
    times_hold: bool
    cpu_ms: FiniteFloat | None  # of all named processes
    index_bytes: Count | None  # of the indexes that it reads

    @property
    def time_cells(self) -> tuple[str | float | None, str | float | None]:
        """The p50 and the p95 as tables show them: marked where they do not hold."""
        held = self.p50_ms, self.p95_ms
        return held if self.times_hold else (Timed(held[0], valid=False).cell(), Timed(held[1], valid=False).cell())


class ProcessFigures(Wire):
    """What a process took: CPU milliseconds by document while the collection was loaded, bytes after the queries."""

    run: str
    process: str
    cpu_ms_a_document: FiniteFloat | None  # null: not measured, or documents were there already
    memory_bytes: Count | None


class RankingFigures(Wire):
    """Means of one pipeline over the measured queries of one set, unrounded.

    null: the rankings are shallower than the metric looks, or no query has a value.
    """

    run: str  # the name of its folder
    run_file_sha256: str
    depth: Count  # documents of each ranking, at most
    lost: Count  # queries without a usable answer; their rankings are empty
    degraded: Count  # answers of which a stage was skipped
    faults: tuple[str, ...]  # what else makes the run not valid, as in report.json
    ndcg_at_10: FiniteFloat | None
    recall_at_100: FiniteFloat | None
    capped_recall_at_100: FiniteFloat | None
    hole_at_10: FiniteFloat | None
    after: RejudgedFigures | None = None  # null: no judgments were added
    served: ServedFigures | None = None  # null: imported, or its run has no report of its files as they are
    models: tuple[str, ...] = ()  # that its stages and expansions are of

    def label(self, pipeline: str) -> str:
        """Returns the name of the pipeline with its models: a stand-in carries its own name."""
        return f"{pipeline} ({', '.join(self.models)})" if self.models else pipeline


class PipelinePair(Wire):
    """Two pipelines on the queries that both have a figure of. `p`: adjusted for all pairs of the set."""

    better: str  # by its mean
    worse: str
    difference: FiniteFloat
    p: FiniteFloat
    queries: Count


class FusedPipelines(Wire):
    """The best fusion of so many pipelines, out of all that were `tried`.

    `held_out`: the mean over queries that were held out when the fusion was chosen; null: a single query.
    """

    pipelines: tuple[str, ...]
    ndcg_at_10: FiniteFloat
    held_out: FiniteFloat | None
    tried: Count


class LengthDistribution(Wire):
    """Lengths of documents in words, one for each pair of query and document."""

    documents: Count
    absent: Count  # pairs whose document the corpus does not have: in no figure
    mean: FiniteFloat | None  # null: no document
    quartiles: tuple[Count, Count, Count] | None  # the least length with a quarter, half, three quarters of all below
    counts: tuple[tuple[Count, Count], ...]  # (words, documents), ascending


class SetStatistics(Wire):
    """The statistics of the BEIR paper's table 1. Words are separated by white space; means are unrounded."""

    documents: Count
    queries: Count  # judged
    judged_a_query: FiniteFloat
    relevant_a_query: FiniteFloat  # documents with a grade of at least 1
    query_words: FiniteFloat  # of the judged queries
    document_words: FiniteFloat  # title and text


class SetAnalysis(Wire):
    """The figures of one set. `dataset_sha256` by file name."""

    name: str
    part_of: str | None
    directory: str
    split: str
    dataset_sha256: dict[str, str]
    statistics: SetStatistics
    warnings: tuple[str, ...]  # of the dataset, as in report.json
    queries: Count  # measured
    pipelines: dict[str, RankingFigures]
    relevant_lengths: LengthDistribution  # of the documents judged relevant
    lengths: dict[str, LengthDistribution]  # of the first ten documents, by pipeline
    added_judgments: tuple[AddedJudgments, ...] = ()
    processes: tuple[ProcessFigures, ...] = ()
    pairs: tuple[PipelinePair, ...] = ()
    fusions: tuple[FusedPipelines, ...] = ()  # of pipelines that fuse nothing themselves


class VocabularyOverlap(Wire):
    """How alike the words of two corpora are: the weighted Jaccard similarity of their shares."""

    first: str
    second: str
    weighted_jaccard: FiniteFloat


class PipelineSummary(Wire):
    """nDCG@10 of a pipeline over sets, and against the baseline. Names say over which sets each figure is.

    Both percentages are over `percent_of`, the sets on which the baseline has a figure above 0. `percent_of_means` is
    100 × (m - b) / b of the two means m and b: the larger the figures of a set, the more it weighs. `mean_percent` is
    the mean of 100 × (figure - baseline) / baseline: a set where the baseline is poor weighs most.
    """

    pipeline: str
    mean: FiniteFloat | None
    mean_of: tuple[str, ...]
    common_mean: FiniteFloat | None  # over the sets that every pipeline has
    percent_of_means: FiniteFloat | None
    mean_percent: FiniteFloat | None
    percent_of: tuple[str, ...]
    better: tuple[str, ...]
    worse: tuple[str, ...]
    equal: tuple[str, ...]


class Analysis(Wire):
    """analysis.json, without a time of its making: the same runs give the same file."""

    schema_version: Literal[2] = 2
    baseline: str
    pipelines: tuple[str, ...]
    sets: tuple[SetAnalysis, ...]
    common_sets: tuple[str, ...]  # counted sets on which every pipeline has an nDCG@10
    summaries: tuple[PipelineSummary, ...]
    overlaps: tuple[VocabularyOverlap, ...]
    systems: dict[str, PublishedSystem]  # those of `published`
    published: dict[str, dict[str, dict[str, str]]]  # by set, system and metric, as printed
    notes: tuple[str, ...]
