"""Puts a function around an app of ours, as a proxy before it would stand."""

from collections.abc import Callable

from fastapi import FastAPI
from starlette.middleware.base import BaseHTTPMiddleware, DispatchFunction


def around(app: FastAPI) -> Callable[[DispatchFunction], DispatchFunction]:
    """Returns a decorator: its function gets each request before `app`, and each answer after it."""

    def put(dispatch: DispatchFunction) -> DispatchFunction:
        assert app.middleware_stack is not None
        app.middleware_stack = BaseHTTPMiddleware(app.middleware_stack, dispatch=dispatch)
        return dispatch

    return put
