"""Owns the error of this folder."""


class SetupProblem(Exception):
    """A condition that the user must resolve; the message is one sentence that states how. Nothing was left running."""
