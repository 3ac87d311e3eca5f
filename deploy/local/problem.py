"""Owns the error of this folder."""


class StackProblem(Exception):
    """The stack cannot start or go on; the message is one sentence that names what is missing and how to get it."""
