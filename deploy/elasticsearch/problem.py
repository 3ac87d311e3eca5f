"""The one error of this folder: something that the person at the terminal has to bring or decide."""


class SetupProblem(Exception):
    """One sentence that says what is missing or in the way and what to do about it. Nothing was left running."""
