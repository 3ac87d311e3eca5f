"""What a backend's failure becomes for the caller."""

import pytest

from gateway.backends.failures import BackendFailed, as_problem
from services.chassis.errors import AnswerTooLarge, BadInput, ProblemError


@pytest.mark.parametrize(("given", "told"), [(7.0, 7), (0.5, 1), (None, 1)])
def test_retry_after_is_that_of_the_backend_and_at_least_a_second(given: float | None, told: int) -> None:
    problem = as_problem(BackendFailed("lexical", "overloaded", "full.", status=429, retry_after_s=given))
    assert (problem.status, problem.retry_after_s) == (429, told)


@pytest.mark.parametrize(("kind", "problem"), [("answer-too-large", AnswerTooLarge), ("bad-input", BadInput)])
def test_an_answer_that_is_too_large_keeps_its_kind(kind: str, problem: type[ProblemError]) -> None:
    assert type(as_problem(BackendFailed("lexical", "refused", "too much.", status=422, kind=kind))) is problem
