"""Owns the errors that end a step of an evaluation; each is one sentence that says what to do."""


class EvaluationError(Exception):
    """A step cannot go on; the files of earlier steps stay usable."""


class DatasetError(EvaluationError):
    """A file of the collection is malformed; the message starts with `file:line`."""
