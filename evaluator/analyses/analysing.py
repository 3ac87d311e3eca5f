"""Makes an analysis of runs: reads their files, judgments and corpora, one set after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from pathlib import Path

from evaluator.analyses.analysed_runs import AnalysedSet, changed_pipelines, measured_with_added, resolve_runs
from evaluator.analyses.analysis_report import Analysis, LengthDistribution, SetAnalysis, VocabularyOverlap
from evaluator.analyses.averages import SetRow, common_rows, ndcg_at_10, set_rows, summarise
from evaluator.analyses.combinations import best_fusions, compared_pairs
from evaluator.analyses.corpus_words import Vocabulary, count_corpus_words, weighted_jaccard
from evaluator.analyses.measured_rankings import MeasuredRanking, measure_ranking
from evaluator.analyses.paper_systems import in_paper_order
from evaluator.analyses.remarks import analysis_notes, not_as_published
from evaluator.analyses.served_figures import process_figures, served_figures
from evaluator.datasets.added_judgments import merged_judgments
from evaluator.datasets.catalogue import Catalogue, load_catalogue
from evaluator.datasets.measured_statistics import statistics_of
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
    found = resolve_runs(words, runs, catalogue)
    pipelines = in_paper_order(dict.fromkeys(name for one in found for name in one.runs))
    if baseline not in pipelines:
        raise WrongOption(
            f"--baseline {baseline}: no pipeline of that name in these runs; there are {_list(pipelines)}"
        )
    files = judgment_files(judgments, [one.name for one in found])
    sets, vocabularies = [], {}
    for one in found:
        analysed, vocabularies[one.name] = _analysed_set(one, files.get(one.name, ()))
        sets.append(analysed)
    rows = set_rows(sets, catalogue)
    published, unlike = _published(rows, catalogue)
    return Analysis(
        baseline=baseline,
        pipelines=pipelines,
        sets=tuple(sets),
        common_sets=tuple(row.name for row in common_rows(rows, pipelines, ndcg_at_10)),
        summaries=summarise(rows, pipelines, baseline),
        overlaps=tuple(_overlaps(vocabularies)),
        systems={
            name: system
            for name, system in published_systems().items()
            if any(name in systems for systems in published.values())
        },
        published=published,
        notes=tuple(
            analysis_notes(
                sets, rows, baseline, pipelines, changed_pipelines(found), unlike, measured_with_added(found)
            )
        ),
    )


def _analysed_set(one: AnalysedSet, files: Sequence[Path]) -> tuple[SetAnalysis, Vocabulary]:
    experiment, queries = one.first.experiment, one.first.ranked.queries
    hashes = one.first.manifest.dataset_sha256
    directory = dataset_directory(one.first.folder)
    asked = queries_file(directory)
    texts = read_queries(asked, skip_unsendable=experiment.skip_unsendable)
    if texts.sha256 != hashes.get(asked.name):
        raise DatasetError(f"{asked} changed since the queries ran; rank or import again")
    own = {query: judged for query, judged in judgments_of(one.first.folder).items() if query in texts.texts}
    corpus = corpus_file(directory)
    added = merged_judgments(own, files, corpus) if files else None
    measured = {
        name: measure_ranking(one.runs[name], name, own, added.grades if added else None)
        for name in in_paper_order(one.runs)
    }
    seed = experiment.seed
    single = {name: ranking.rankings for name, ranking in measured.items() if ranking.rankings is not None}
    relevant = list(_relevant(own, queries))
    chosen = {*relevant, *_first_ten(measured)}
    with progress(f"{one.name}: counting words", one.first.manifest.counts.documents, "documents") as advance:
        counted = count_corpus_words(corpus, hashes.get(corpus.name, ""), chosen, advance)
    with progress(f"{one.name}: trying fusions", len(queries), "queries") as advance:
        fusions = tuple(best_fusions(single, queries, own, seed, advance))
    served = served_figures(one.runs)
    analysed = SetAnalysis(
        name=one.name,
        part_of=one.part_of,
        directory=experiment.dataset,
        split=experiment.split,
        dataset_sha256=hashes,
        statistics=statistics_of(own, texts.texts, counted.documents, counted.words),
        warnings=one.first.manifest.counts.remarks,
        queries=len(queries),
        pipelines={
            name: ranking.figures.model_copy(update={"served": served.get(name)}) for name, ranking in measured.items()
        },
        relevant_lengths=length_distribution(relevant, counted.lengths),
        lengths={name: length_distribution(ranking.first_ten, counted.lengths) for name, ranking in measured.items()},
        added_judgments=added.files if added else (),
        processes=tuple(process_figures(one.runs)),
        pairs=compared_pairs({name: ranking.ndcg for name, ranking in measured.items()}, seed),
        fusions=fusions,
    )
    return analysed, counted.vocabulary


def _relevant(grades: Grades, queries: Sequence[str]) -> Iterator[str]:
    for query in queries:
        yield from (name for name, grade in grades.get(query, {}).items() if grade >= RELEVANCE_LEVEL)


def _first_ten(measured: Mapping[str, MeasuredRanking]) -> Iterator[str]:
    for ranking in measured.values():
        yield from ranking.first_ten


def _overlaps(vocabularies: Mapping[str, Vocabulary]) -> Iterator[VocabularyOverlap]:
    for (first, mine), (second, theirs) in combinations(vocabularies.items(), 2):
        yield VocabularyOverlap(first=first, second=second, weighted_jaccard=weighted_jaccard(mine, theirs))


def _published(
    rows: Sequence[SetRow], catalogue: Catalogue
) -> tuple[dict[str, dict[str, dict[str, str]]], dict[str, str]]:
    """Returns the published figures by row, and why sets of that name have none beside theirs."""
    found, unlike = {}, {}
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
            found[row.name] = figures
    return found, unlike


def _list(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(names)


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
