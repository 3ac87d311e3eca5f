"""Decides what two rankings share: judgments, queries, depth. Refuses pairs that share too little; notes the rest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.comparison.compared_rankings import ComparedRanking
from evaluator.errors import EvaluationError
from evaluator.steps.validity import arm_faults

Rankings = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class SharedQueries:
    """The queries that both are measured on. `notes`: sentences on what was left out or may mislead. `losses`: those of
    them on lost and degraded answers."""

    queries: tuple[str, ...]
    depth: int
    notes: tuple[str, ...]
    losses: tuple[str, ...]

    def cut(self, rankings: Rankings) -> Rankings:
        """Returns the rankings of the shared queries, as deep as the shallower side."""
        return {query: rankings.get(query, ())[: self.depth] for query in self.queries}


def find_shared_queries(first: ComparedRanking, second: ComparedRanking) -> SharedQueries:
    """Returns what a pair shares. Raises EvaluationError for other judgments and for no common query."""
    if _hash(first, "qrels") != _hash(second, "qrels"):
        raise EvaluationError(
            f"{first.label} and {second.label} were judged by different judgments: "
            f"{_place(first)} and {_place(second)} differ in sha256 (manifest.json)"
        )
    other_queries = frozenset(second.ranked.queries)
    queries = tuple(query for query in first.ranked.queries if query in other_queries)
    if not queries:
        raise EvaluationError(f"{first.label} and {second.label}: no query is in both; {_samples(first, second)}")
    depths = first.ranked.depth, second.ranked.depth
    notes = [
        *(fault for ranking in (first, second) for fault in _faults(ranking)),
        *_differing_files(first, second),
        *_differing_queries(first, second, len(queries)),
    ]
    if depths[0] != depths[1]:
        notes.append(
            f"{first.label} was ranked {depths[0]} deep and {second.label} {depths[1]}: both are cut to {min(depths)}"
        )
    losses = tuple(note for ranking in (first, second) if (note := _losses(ranking, queries)))
    return SharedQueries(queries, min(depths), (*notes, *losses), losses)


def _hash(ranking: ComparedRanking, what: str) -> str | None:
    """Returns the sha256 of the qrels, corpus or queries file of a run."""
    prefixes = {"corpus": ("corpus.",), "queries": ("queries.", "topics.")}
    others = tuple(prefix for known in prefixes.values() for prefix in known)
    for name, digest in ranking.manifest.dataset_sha256.items():
        if name.startswith(prefixes[what]) if what in prefixes else not name.startswith(others):
            return digest
    return None


def _place(ranking: ComparedRanking) -> str:
    return f"{ranking.experiment.dataset} split {ranking.experiment.split}"


def _differing_files(first: ComparedRanking, second: ComparedRanking) -> list[str]:
    return [
        f"{first.label} and {second.label} had different {what}: the difference may come from there"
        for what in ("corpus", "queries")
        if _hash(first, what) != _hash(second, what)
    ]


def _differing_queries(first: ComparedRanking, second: ComparedRanking, shared: int) -> list[str]:
    counts = len(first.ranked.queries), len(second.ranked.queries)
    if counts == (shared, shared):
        return []
    return [
        f"{first.label} was asked {counts[0]} queries and {second.label} {counts[1]}, {_samples(first, second)}: "
        f"compared on the {shared} that they share"
    ]


def _samples(first: ComparedRanking, second: ComparedRanking) -> str:
    return " and ".join(
        f"all judged ones of {ranking.label}"
        if ranking.experiment.queries is None
        else f"a sample of {ranking.experiment.queries} with seed {ranking.experiment.seed}"
        for ranking in (first, second)
    )


def _faults(ranking: ComparedRanking) -> tuple[str, ...]:
    """Returns what the report of a ranking's run calls not valid, apart from losses."""
    arm = next(ranked for ranked in ranking.ranked.arms if ranked.name == ranking.arm)
    of_arm = arm_faults(ranking.label, arm, ranking.manifest, ranking.answers.values(), ranking.imported)
    return *ranking.manifest.counts.remarks, *of_arm


def _losses(ranking: ComparedRanking, queries: Sequence[str]) -> str:
    records = [ranking.answers.get(query) for query in queries]
    lost = Counter("no_record" if record is None else record.error for record in records)
    del lost[None]
    degraded = sum(record is not None and bool(record.degraded) for record in records)
    parts = []
    if lost:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(lost.items(), key=str))
        parts.append(f"LOST {lost.total()} of {len(queries)} queries ({kinds}), which count as 0")
    if degraded:
        parts.append(f"{degraded} answers were DEGRADED")
    return f"{ranking.label}: {'; '.join(parts)}" if parts else ""
