"""Makes an analysis of runs: reads their files, judgments and corpora, one set after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from pathlib import Path
from statistics import fmean

from evaluator.analyses.analysed_runs import AnalysedSet, changed_pipelines, measured_with_added, resolve_runs
from evaluator.analyses.analysis_report import (
    Analysis,
    LengthDistribution,
    SetAnalysis,
    SetStatistics,
    VocabularyOverlap,
)
from evaluator.analyses.averages import IN_DOMAIN, SetRow, common_rows, ndcg_at_10, set_rows, summarise
from evaluator.analyses.combinations import best_fusions, compared_pairs
from evaluator.analyses.corpus_words import CorpusWords, Vocabulary, count_corpus_words, weighted_jaccard
from evaluator.analyses.measured_rankings import measure_ranking, process_figures, served_figures
from evaluator.analyses.paper_systems import in_paper_order
from evaluator.datasets.added_judgments import merged_judgments
from evaluator.datasets.catalogue import Catalogue, load_catalogue
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.datasets.reader import corpus_file
from evaluator.errors import DatasetError, WrongOption
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL
from evaluator.metrics.quality import Grades
from evaluator.parity.published import figures_on, published_systems
from evaluator.progress import progress
from evaluator.runs.manifest import dataset_directory
from evaluator.steps.run_judgments import judgments_of

BASELINE = "bm25"


def analyse(words: Sequence[str], runs: Path, baseline: str = BASELINE, judgments: Sequence[str] = ()) -> Analysis:
    """Returns the analysis of the runs that the words name. `judgments`: `SET=FILE` or FILE, merged over a set's own
    in their order.

    Raises EvaluationError for runs that cannot stand in one table, for changed files, and where no set has the
    baseline.
    """
    catalogue = load_catalogue()
    resolved = resolve_runs(words, runs, catalogue)
    pipelines = in_paper_order(dict.fromkeys(name for selected in resolved for name in selected.runs))
    if baseline not in pipelines:
        raise WrongOption(
            f"--baseline {baseline}: no pipeline of that name in these runs; there are {', '.join(pipelines)}"
        )
    files = judgment_files(judgments, [selected.name for selected in resolved])
    sets, vocabularies = [], {}
    for selected in resolved:
        analysed, vocabularies[selected.name] = _analysed_set(selected, files.get(selected.name, ()))
        sets.append(analysed)
    rows = set_rows(sets, catalogue)
    published, unlike = _published(rows, catalogue)
    return Analysis(
        baseline=baseline,
        pipelines=pipelines,
        sets=tuple(sets),
        common_sets=tuple(row.name for row in common_rows(rows, pipelines, ndcg_at_10)),
        summaries=summarise(rows, pipelines, baseline),
        overlaps=tuple(
            VocabularyOverlap(first=first, second=second, weighted_jaccard=weighted_jaccard(words, others))
            for (first, words), (second, others) in combinations(vocabularies.items(), 2)
        ),
        systems={
            name: system
            for name, system in published_systems().items()
            if any(name in systems for systems in published.values())
        },
        published=published,
        notes=tuple(
            analysis_notes(
                sets, rows, baseline, pipelines, changed_pipelines(resolved), unlike, measured_with_added(resolved)
            )
        ),
    )


def _analysed_set(selected: AnalysedSet, files: Sequence[Path]) -> tuple[SetAnalysis, Vocabulary]:
    experiment, queries = selected.first.experiment, selected.first.ranked.queries
    hashes = selected.first.manifest.dataset_sha256
    directory = dataset_directory(selected.first.folder)
    file = queries_file(directory)
    texts = read_queries(file, skip_unsendable=experiment.skip_unsendable)
    if texts.sha256 != hashes.get(file.name):
        raise DatasetError(f"{file} changed since the queries ran; rank or import again")
    own = {query: judged for query, judged in judgments_of(selected.first.folder).items() if query in texts.texts}
    corpus = corpus_file(directory)
    added = merged_judgments(own, files, corpus) if files else None
    measured = {
        name: measure_ranking(selected.runs[name], name, own, added.grades if added else None)
        for name in in_paper_order(selected.runs)
    }
    seed = experiment.seed
    single = {name: ranking.rankings for name, ranking in measured.items() if ranking.rankings is not None}
    relevant = [name for query in queries for name, grade in own.get(query, {}).items() if grade >= RELEVANCE_LEVEL]
    chosen = {*relevant, *(name for ranking in measured.values() for name in ranking.first_ten)}
    with progress(f"{selected.name}: counting words", selected.first.manifest.counts.documents, "documents") as advance:
        counted = count_corpus_words(corpus, hashes.get(corpus.name, ""), chosen, advance)
    with progress(f"{selected.name}: trying fusions", len(queries), "queries") as advance:
        fusions = tuple(best_fusions(single, queries, own, seed, advance))
    served = served_figures(selected.runs)
    analysed = SetAnalysis(
        name=selected.name,
        part_of=selected.part_of,
        directory=experiment.dataset,
        split=experiment.split,
        dataset_sha256=hashes,
        statistics=set_statistics(own, texts.texts, counted),
        warnings=selected.first.manifest.counts.remarks,
        queries=len(queries),
        pipelines={
            name: ranking.figures.model_copy(update={"served": served.get(name)}) for name, ranking in measured.items()
        },
        relevant_lengths=length_distribution(relevant, counted.lengths),
        lengths={name: length_distribution(ranking.first_ten, counted.lengths) for name, ranking in measured.items()},
        added_judgments=added.files if added else (),
        processes=tuple(process_figures(selected.runs)),
        pairs=compared_pairs({name: ranking.ndcg for name, ranking in measured.items()}),
        fusions=fusions,
    )
    return analysed, counted.vocabulary


def set_statistics(judged: Grades, queries: Mapping[str, str], corpus: CorpusWords) -> SetStatistics:
    """Returns the statistics of a set, which judges at least one query."""
    return SetStatistics(
        documents=corpus.documents,
        queries=len(judged),
        judged_a_query=fmean(len(grades) for grades in judged.values()),
        relevant_a_query=fmean(
            sum(grade >= RELEVANCE_LEVEL for grade in grades.values()) for grades in judged.values()
        ),
        query_words=fmean(len(queries[query].split()) for query in judged),
        document_words=corpus.words / corpus.documents,
    )


def _published(
    rows: Sequence[SetRow], catalogue: Catalogue
) -> tuple[dict[str, dict[str, dict[str, str]]], dict[str, str]]:
    """Returns the published figures by row, and why sets of that name have none beside theirs."""
    published, unlike = {}, {}
    for row in rows:
        figures = figures_on(row.name)
        if not figures:
            continue
        reasons = [reason for member in row.members if (reason := not_as_published(member, catalogue))]
        if len(row.members) < (of := len(catalogue.parts(row.name))):
            reasons.append(f"{len(row.members)} of its {of} parts are here")
        if reasons:
            unlike[row.name] = reasons[0]
        else:
            published[row.name] = figures
    return published, unlike


def analysis_notes(
    sets: Sequence[SetAnalysis],
    rows: Sequence[SetRow],
    baseline: str,
    pipelines: Sequence[str],
    changed: Sequence[str],
    unlike: Mapping[str, str],
    with_added: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yields the remarks. `changed`: pipelines that differ between sets; `unlike`: why a set is not as published.

    `with_added`: set and run of those whose own figures are by added judgments too.
    """
    for analysed in sets:
        yield from (f"{analysed.name}: {warning}." for warning in analysed.warnings)
        if analysed.queries < analysed.statistics.queries:
            every = analysed.statistics.queries
            yield f"{analysed.name}: a sample of {analysed.queries} of {every} judged queries was measured."
        for name, figures in analysed.pipelines.items():
            if figures.lost:
                yield f"{analysed.name}, {name}: {figures.lost} queries were LOST; they count as 0."
            if figures.degraded:
                yield f"{analysed.name}, {name}: {figures.degraded} answers were DEGRADED: not this pipeline's figures."
            yield from (f"{analysed.name}, {fault}." for fault in figures.faults)
        if missing := [name for name in pipelines if name not in analysed.pipelines]:
            yield f"{analysed.name}: not measured: {', '.join(missing)}."
        yield from (f"{analysed.name}: {file.sentence}." for file in analysed.added_judgments)
        if analysed.name in IN_DOMAIN:
            yield f"{analysed.name} is in no mean and no comparison: models are trained on it."
    for name in changed:
        yield f"{name}: the pipeline of that name is not the same on all sets (other stages, preset or settings)."
    for row in rows:
        if row.counted and row.figure(baseline, ndcg_at_10) == 0:
            yield f"{row.name}: {baseline} has an nDCG@10 of 0, so no pipeline has a percentage of it there."
    for name, run in with_added:
        yield f"{name}: the report of {run} is by added judgments too; the figures here are by the set's own."
    for name, reason in unlike.items():
        yield f"{name}: no published figures beside ours: {reason}."


def not_as_published(analysed: SetAnalysis, catalogue: Catalogue) -> str | None:
    """Returns why the published figures of a set's name are not of these files and queries; None: they may be."""
    known = catalogue.sets.get(analysed.name)
    if known is None:
        return "not in the catalogue"
    measured, published = analysed.statistics, known.statistics
    if analysed.split != known.split:
        return f"they are of the split {known.split}, these of {analysed.split}"
    if (measured.documents, measured.queries) != (published.documents, published.queries):
        return (
            f"the set has {published.documents} documents and {published.queries} queries, "
            f"this one {measured.documents} and {measured.queries}"
        )
    if analysed.queries < measured.queries:
        return f"{analysed.queries} of {measured.queries} queries were measured"
    return None


def judgment_files(words: Sequence[str], sets: Sequence[str]) -> dict[str, list[Path]]:
    """Returns the files by set, in their order: `SET=FILE`, or FILE where there is one set. Raises WrongOption."""
    files: dict[str, list[Path]] = {}
    for word in words:
        name, given, path = word.partition("=")
        if not given or Path(word).exists():
            if len(sets) != 1:
                raise WrongOption(
                    f"--judgments {word}: query ids of two sets may be the same; say of which set it is: "
                    f"{sets[0]}={word} (there are {', '.join(sets)})"
                )
            name, path = sets[0], word
        if name not in sets:
            raise WrongOption(f"--judgments {word}: no set {name!r} in these runs; there are {', '.join(sets)}")
        files.setdefault(name, []).append(Path(path))
    return files


def length_distribution(documents: Iterable[str], lengths: Mapping[str, int]) -> LengthDistribution:
    """Counts the lengths of documents, given by id as often as they count. `lengths`: in words, of those there are."""
    counts: Counter[int] = Counter()
    absent = 0
    for document in documents:
        if document in lengths:
            counts[lengths[document]] += 1
        else:
            absent += 1
    ordered = sorted(counts.items())
    total = counts.total()
    return LengthDistribution(
        documents=total,
        absent=absent,
        mean=sum(words * count for words, count in ordered) / total if total else None,
        quartiles=(_quantile(ordered, 1), _quantile(ordered, 2), _quantile(ordered, 3)) if total else None,
        counts=tuple(ordered),
    )


def _quantile(ordered: list[tuple[int, int]], quarter: int) -> int:
    """Returns the least length that at least so many quarters of the documents do not exceed."""
    upto = list(accumulate(count for _, count in ordered))
    return next(words for (words, _), below in zip(ordered, upto, strict=True) if 4 * below >= quarter * upto[-1])
