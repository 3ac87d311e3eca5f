"""Owns the errors that end a step of an evaluation; each is one sentence that states what to do."""


class EvaluationError(Exception):
    """A step cannot go on; the files of earlier steps stay usable."""


class WrongOption(EvaluationError):
    """The command line has a wrong value; the message begins with the option. Nothing was done."""


class DatasetError(EvaluationError):
    """A file of the collection is malformed; the message starts with `file:line`."""
