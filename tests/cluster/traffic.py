"""Searches at a fixed rate until its input ends, then prints what came back. It runs in a pod of an application.

The first line of its input is a JSON object: url, key, rate per second, and the bodies of the searches, sent in turn.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count

import httpx

# Of the gateway's own deadline, which is 2 s, and a journey.
TIMEOUT_S = 5.0


async def main() -> None:
    loop = asyncio.get_running_loop()
    plan = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    ended = loop.run_in_executor(None, sys.stdin.read)
    failed: Counter[str] = Counter()
    degraded: Counter[str] = Counter()
    took_ms: list[float] = []

    async def search(body: dict[str, object], due: float) -> None:
        try:
            answer = await client.post(plan["url"], json=body)
        except httpx.HTTPError as error:
            failed[type(error).__name__] += 1
            return
        took_ms.append((time.monotonic() - due) * 1000)
        if answer.status_code != 200:
            failed[f"status {answer.status_code}"] += 1
            return
        parts = answer.json()["degraded"]
        if parts:
            degraded[", ".join(sorted({f"{part['stage']}: {part['reason']}" for part in parts}))] += 1

    headers = {"authorization": f"Bearer {plan['key']}"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with (
        httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, limits=limits) as client,
        asyncio.TaskGroup() as sent,
    ):
        started = time.monotonic()
        for number in count():
            due = started + number / plan["rate"]
            await asyncio.wait([ended], timeout=max(0.0, due - time.monotonic()))
            if ended.done():
                break
            sent.create_task(search(plan["searches"][number % len(plan["searches"])], due))
    took_ms.sort()
    shares = {f"p{share}_ms": took_ms[len(took_ms) * share // 100] for share in (50, 95)} if took_ms else {}
    print(json.dumps({"sent": number, "failed": failed, "degraded": degraded, **shares}))


asyncio.run(main())
