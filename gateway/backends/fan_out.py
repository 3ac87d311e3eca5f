"""Sends one request to every storing backend at once and collects the results."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from gateway.backends.budget import Budget
from gateway.backends.failures import BackendFailed, advice, as_problem
from gateway.backends.wire import Backend
from services.contracts.documents import DeleteReport, IndexReport, ServiceOutcome

Result = TypeVar("Result")


async def on_each(
    backends: Iterable[Backend], action: Callable[[Backend], Awaitable[Result]]
) -> Sequence[tuple[Backend, Result | BackendFailed]]:
    """Returns each backend with its result or its failure. Raises the first problem if all of them failed."""

    async def one(backend: Backend) -> tuple[Backend, Result | BackendFailed]:
        try:
            return backend, await action(backend)
        except BackendFailed as failure:
            return backend, failure

    results = await asyncio.gather(*(one(backend) for backend in backends))
    failures = [result for _, result in results if isinstance(result, BackendFailed)]
    if failures and len(failures) == len(results):
        raise as_problem(failures[0])
    return results


async def on_all(backends: Iterable[Backend], action: Callable[[Backend], Awaitable[Result]]) -> dict[str, Result]:
    """Returns the results by backend. Raises the first problem once all calls have ended."""
    results = await on_each(backends, action)
    for _, result in results:
        if isinstance(result, BackendFailed):
            raise as_problem(result) from result
    return {backend.name: result for backend, result in results if not isinstance(result, BackendFailed)}


def remaining_s(budget: Budget) -> float:
    """Returns the seconds for a call that is the last one of its request."""
    return budget.share_s(1.0, 0.0)


def outcomes(
    results: Sequence[tuple[Backend, IndexReport | BackendFailed]]
    | Sequence[tuple[Backend, DeleteReport | BackendFailed]],
) -> tuple[ServiceOutcome, ...]:
    """Returns each backend's part of a report."""
    return tuple(
        ServiceOutcome(backend=backend.name, status="failed", reason=f"{result.reason}: {advice(result)}")
        if isinstance(result, BackendFailed)
        else ServiceOutcome(backend=backend.name, status="ok", report=result)
        for backend, result in results
    )
