"""What can be said in one sentence when the stack cannot start."""


class StackProblem(Exception):
    """The stack cannot start or go on; the message is one sentence that says what is missing and how to get it."""
