"""Finds what in a pipeline's answers or imported file makes a run not valid, apart from lost and degraded ones. Pure.

Leaves those to the report and to comparisons, which count them over other queries.
"""

from collections.abc import Iterable, Iterator

from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.manifest import Manifest
from evaluator.steps.rank import RankedArm
from evaluator.steps.run_import import ImportedFile


def arm_faults(
    label: str, arm: RankedArm, manifest: Manifest, records: Iterable[AnswerOutcome], imported: ImportedFile | None
) -> Iterator[str]:
    """Yields a sentence for each fault, `label` first. `imported`: the file of an imported arm."""
    if imported and imported.hits_not_in_corpus:
        yield f"{label}: {imported.hits_not_in_corpus} of {imported.hits} hits are NOT IN THE CORPUS: of another one?"
    if imported and (unknown := imported.queries_unknown):
        yield f"{label}: {unknown} of {imported.queries} queries are NOT IN THE COLLECTION: of another one?"
    answered = [record for record in records if record.phase != "warmup" and record.error is None]
    generations = {record.generation for record in answered} - {manifest.generation}
    if generations:
        yield f"{label}: answered from {sorted(map(str, generations))} too, not only {manifest.generation}"
    if {record.fingerprint for record in answered} - {arm.fingerprint}:
        yield f"{label}: the gateway ran another pipeline than it had declared before"
    models: dict[str, set[str]] = {}
    for record in answered:
        for stage, model in record.models.items():
            models.setdefault(stage, set()).add(model)
    for stage, names in models.items():
        if len(names) > 1:
            yield f"{label}: stage {stage} was answered by several models: {', '.join(sorted(names))}"
