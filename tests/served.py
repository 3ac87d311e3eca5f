"""An app on a real port of this process, for clients that know no ASGI."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI, within_s: float = 60.0) -> Iterator[str]:
    """Its address while it is served; its lifespan is entered before and left after."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ends_at = time.monotonic() + within_s
    while not server.started:
        assert thread.is_alive(), "the server ended before it began"
        assert time.monotonic() < ends_at, f"the server was not ready within {within_s} s"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
