"""`python -m tests.soak.agreement_stub MS`: answers every POST with the same empty ranking after MS milliseconds.

Prints its port when it listens.
"""

import asyncio
import sys

import uvloop
from aiohttp import web

from services.contracts.query import PipelineRef, SearchAnswer

ANSWER = SearchAnswer(
    collection="stub@1",
    pipeline=PipelineRef(name="bm25", fingerprint="0" * 12),
    request_id="r",
    hits=(),
    timings_ms={"total": 0.0},
)


async def serve(seconds: float) -> None:
    body = ANSWER.model_dump_json().encode()

    async def search(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(seconds)
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_post("/{path:.*}", search)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as main:
        main.run(serve(float(sys.argv[1]) / 1000))
