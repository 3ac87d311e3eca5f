"""A server with fixed CPU work per request: `python -m evaluator.load.calibration_stub`, started by calibration.py.

Its times depend on the machine alone, so that they tell the machine's speed. Prints its port when it listens, and ends
when its standard input does.
"""

import asyncio
import hashlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

# PBKDF2 (RFC 8018) is fixed work by definition, in one call of OpenSSL: 2 ms on an x86-64 core with SHA instructions.
ALGORITHM = "sha256"
ITERATIONS = 8_000
WORK = f"pbkdf2-{ALGORITHM} x {ITERATIONS}"


async def answer(request: "web.Request") -> "web.Response":
    """Works on the event loop, one request after another."""
    from aiohttp import web

    await request.read()
    hashlib.pbkdf2_hmac(ALGORITHM, b"calibration", b"stub", ITERATIONS)
    # The generators tell meanwhile how many answers do not say this (live.py).
    return web.Response(body=b'{"degraded":[]}')


async def serve() -> None:
    """Answers every POST until the process that started it closes standard input or ends."""
    from aiohttp import web

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    await runner.cleanup()


if __name__ == "__main__":
    # Here, because the command line imports this module for WORK.
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as main:
        main.run(serve())
