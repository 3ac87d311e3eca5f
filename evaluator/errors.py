"""What ends a step of an evaluation: one sentence that says what is wrong and what to do."""


class EvaluationError(Exception):
    """Nothing was lost silently: the step ends here, and what earlier steps wrote stays usable."""


class DatasetError(EvaluationError):
    """A file of the collection does not read; the message starts with `file:line`."""
