"""`python -m tests.soak.delay_stub MEDIAN_MS SEED`: answers every search after a log-normal time, on a free port."""

import asyncio
import math
import random
import re
import sys

from services.contracts.query import PipelineRef, SearchAnswer, SearchHit
from tests.soak import wire

SPREAD = 0.3  # standard deviation of the logarithm
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)


def _response() -> bytes:
    answer = SearchAnswer(
        collection="demo@1",
        pipeline=PipelineRef(name="bm25", fingerprint="0" * 8),
        request_id="r",
        hits=(SearchHit(id="d1", rank=1, score=1.0),),
        degraded=(),
        timings_ms={"total": 1.0},
    )
    body = answer.model_dump_json().encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def main(median_ms: float, seed: int) -> None:
    response, dice = _response(), random.Random(seed)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                found = LENGTH.search(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(int(found[1]) if found else 0)
                await asyncio.sleep(dice.lognormvariate(math.log(median_ms / 1000), SPREAD))
                writer.write(response)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            wire.reset(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # read by who started it
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2])))
