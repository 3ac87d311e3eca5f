"""Reloads the pipeline files while the gateway serves: on request and on SIGHUP. A faulty file changes nothing."""

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.search.catalog import Catalog
from gateway.search.plan import PipelineError
from services.chassis.errors import BadInput
from services.contracts.pipelines import PipelineChanges

logger = logging.getLogger(__name__)


async def reload(catalog: Catalog) -> PipelineChanges:
    """Reloads the files in a thread. Raises BadInput with file and fault; the catalog is unchanged then."""
    try:
        changes = await asyncio.to_thread(catalog.reload)
    except PipelineError as error:
        raise BadInput(f"{error}. The pipelines stay as they were; put the file right and ask again.") from error
    logger.info("pipelines read again", extra=changes.model_dump())
    return changes


@contextmanager
def reloading_on_hangup(catalog: Catalog) -> Iterator[None]:
    """Reloads the pipeline files on SIGHUP within the block. Logs what changed, or what is wrong."""
    # Only the main thread's loop can handle signals; a gateway in another thread (tests) has only the route.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def reread() -> None:
        try:
            await reload(catalog)
        except BadInput as problem:
            logger.error("pipelines not read again: %s", problem.detail)

    def on_hangup() -> None:
        task = loop.create_task(reread())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
