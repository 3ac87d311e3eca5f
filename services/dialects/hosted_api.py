"""Calls a vendor's HTTP API: connections, batches, retries, and errors that show neither its address nor its key."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from operator import itemgetter
from typing import Any

import aiohttp
import httpx
import numpy as np
import orjson
from httpx_aiohttp import AiohttpTransport
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, DeadlineExceeded, Overloaded, ProblemError, Unavailable, UpstreamFailed
from services.chassis.settings.configuration import variable
from services.chassis.settings.service_settings import HostedApiSettings
from services.chassis.settings.trust import certificate_fault, context_for

Numbers = NDArray[np.float32]  # [texts] or [texts, dimension]
Body = Callable[[Sequence[str]], Mapping[str, object]]  # of a request with these texts
# Seconds before a retry without Retry-After. They double.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 8.0


class HostedApi:
    """One route of the API that the settings name, which has numbers for texts; `name` begins sentences about it.

    Its methods raise Unavailable (it cannot be reached), Overloaded (busy up to the deadline), BadInput (it refuses the
    texts), and UpstreamFailed (it refuses the key, or does not answer with finite numbers for each text).
    """

    def __init__(self, settings: HostedApiSettings, route: str, read: Callable[[Any], object], batch: int = 32) -> None:
        """`read` takes the numbers out of an answer, with a KeyError, TypeError or ValueError where there are none.

        `batch`: texts per request, where no setting says. Raises ConfigurationError for a file without an authority.
        """
        self._settings = settings
        self._read = read
        self._batch = settings.api_batch or batch
        self._names = {field: variable(type(settings), field) for field in type(settings).model_fields}
        self.name = f"The API of {self._names['api_url']}"
        self.address = str(httpx.URL(f"{settings.api_url}/{route}"))  # settings refuse queries and passwords
        self._key = settings.api_key.get_secret_value() if settings.api_key else None
        self.slots = asyncio.Semaphore(settings.api_in_flight)
        verify = context_for(self.address, settings.api_ca_file, self._names["api_ca_file"])
        self._http = httpx.AsyncClient(
            # httpx's own pool dies after cancellations (encode/httpcore 1093).
            transport=AiohttpTransport(verify=verify),
            headers={} if self._key is None else {"authorization": f"Bearer {self._key}"},
            timeout=None,  # of a whole call instead
            trust_env=False,
        )

    async def fill(
        self, numbers: Numbers, texts: Sequence[str], body: Body, deadline: Deadline, *, waits: bool = True
    ) -> None:
        """Writes the numbers of each text in batches, earlier ones first; 0 for blank texts, which APIs refuse.

        `waits`: for one of the `slots`. Raises DeadlineExceeded; what came by then is written.
        """
        sent = np.array([bool(text.strip()) for text in texts], dtype=np.bool_)
        numbers[~sent] = 0

        async def write(places: NDArray[np.intp]) -> None:
            async with self.slots if waits else nullcontext():
                rows = await self.ask(body([texts[place] for place in places]), deadline)
            if rows.shape != (expected := numbers[places].shape):
                raise UpstreamFailed(f"{self.name} answered with numbers of shape {rows.shape} instead of {expected}.")
            numbers[places] = rows

        places = np.flatnonzero(sent)
        starts = range(0, len(places), self._batch)
        tasks = [asyncio.create_task(write(places[at : at + self._batch])) for at in starts]
        try:
            async with asyncio.timeout(deadline.remaining_s):
                await asyncio.gather(*tasks)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{self.name} did not answer in time; send a larger X-Deadline-Ms.") from error
        finally:
            for task in tasks:
                task.cancel()

    async def ask(self, body: Mapping[str, object], deadline: Deadline) -> Numbers:
        """Returns the numbers in the answer to one request. Retries while the API is busy and time is left."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(self._settings.api_timeout_s):
                    answer = await self._http.post(self.address, json=body)
            except TimeoutError:
                fault: ProblemError = Unavailable(f"{self.name} did not answer within {self._names['api_timeout_s']}.")
            except (httpx.DecodingError, aiohttp.ClientResponseError) as error:
                raise UpstreamFailed(f"{self.name} does not answer in HTTP; is its address right?") from error
            except httpx.TransportError as error:
                # Without the client's own message, which has addresses.
                reason = certificate_fault(error) or type(error.__cause__ or error).__name__
                trust = f"is its certificate one of the authority in {self._names['api_ca_file']}"
                fault = Unavailable(f"{self.name} cannot be reached ({reason}). Is it running there, and {trust}?")
                if isinstance(error.__cause__, aiohttp.ClientConnectorError):  # httpx_aiohttp names it ConnectTimeout
                    raise fault from error
            else:
                if answer.status_code == 200:
                    return self._numbers(answer.content)
                fault = self._refusal(answer)
            # At random, so that batches do not retry at the same time.
            wait_s = max(fault.retry_after_s or 0, random.uniform(pause_s / 2, pause_s))
            if fault.status not in (Overloaded.status, Unavailable.status) or wait_s >= deadline.remaining_s:
                raise fault
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def close(self) -> None:
        await self._http.aclose()

    def _numbers(self, content: bytes) -> Numbers:
        try:
            with np.errstate(over="ignore"):
                numbers = np.asarray(self._read(orjson.loads(content)), dtype=np.float32)
            if not np.isfinite(numbers).all():
                raise ValueError("infinite")
        except (KeyError, TypeError, ValueError) as error:
            raise UpstreamFailed(f"{self.name} did not answer with finite numbers for each text.") from error
        return numbers

    def _refusal(self, answer: httpx.Response) -> ProblemError:
        status, after = answer.status_code, answer.headers.get("retry-after", "")
        after_s = int(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
        if status == Overloaded.status:
            return Overloaded(f"{self.name} refuses more requests; try again later.", retry_after_s=after_s or 1)
        if status >= 500:
            return Unavailable(f"{self.name} is not available (HTTP {status}); try again later.", retry_after_s=after_s)
        if status in (401, 403):
            return UpstreamFailed(f"{self.name} refuses the key: set {self._names['api_key']} to one that it takes.")
        message = " ".join(answer.text.replace(self._key or "\0", "…").split())[:300]
        if status in (400, 413, 422):
            return BadInput(f"{self.name} refuses the texts (HTTP {status}): {message}")
        return UpstreamFailed(f"{self.name} answered with HTTP {status}: {message}")


def by_index(items: Iterable[Mapping[str, object]], field: str) -> list[object]:
    """Returns this field of each item in the order of `index`, without the items whose index is not their place."""
    ordered = sorted(items, key=itemgetter("index"))
    return [item[field] for place, item in enumerate(ordered) if item["index"] == place]
