"""Reads CPU time and memory of the processes behind the gateway around some queries, and renders what they cost.

Sends no query. Knows Prometheus' text (our services, a Qdrant server) and the node statistics of Elasticsearch.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

import httpx
from pydantic import AliasPath, BaseModel, Field, FiniteFloat, ValidationError

from evaluator.client.gateway_access import read_access
from evaluator.datasets.elasticsearch_access import read_elasticsearch_access
from evaluator.errors import EvaluationError, WrongOption
from services.chassis.settings.addresses import server_address
from services.contracts.base import Count, Wire

READ_WITHIN_S = 5.0
MIB = 2**20
NO_PROCESSES: Mapping[str, str] = MappingProxyType({})
# Elasticsearch reports its start by two clocks, which a correction of the time moves apart. No process starts faster.
SAME_START_S = 0.5
STARTED_ANEW = "it was started anew meanwhile"
ELASTICSEARCH = "elasticsearch"
_NODE_STATISTICS = "/_nodes/stats/process,jvm"
_MEMORY = ("process_resident_memory_bytes", "memory_resident_bytes")  # the second is Qdrant's name
_CPU = "process_cpu_seconds_total"
_START = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """CPU seconds since its start and memory of one process; None where it does not report it."""

    cpu_s: float | None = None
    memory_bytes: int | None = None
    reason: str | None = None  # why there is no reading
    started_s: float | None = None  # when it was started, seconds since 1970


Readings = Mapping[str, ProcessReading]
Reader = Callable[[], Awaitable[Readings]]


class ProcessCost(Wire):
    """CPU of a process between two readings, and its memory at the second one.

    `cpu_ms` includes what it does without queries (polls, merges, garbage collection). Memory is the resident set; of
    Elasticsearch, which does not report it, what the JVM has committed.
    """

    cpu_ms: FiniteFloat | None
    memory_bytes: Count | None
    reason: str | None = None  # why a figure is missing


def parse_processes(text: str) -> dict[str, str]:
    """Reads `NAME=URL,NAME=URL`. The name `elasticsearch` means its statistics. Raises WrongOption."""
    processes: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, url = item.partition("=")
        if not name or not url or name in processes:
            raise WrongOption(f"--processes: {item}: write NAME=URL, as in dense=http://127.0.0.1:8002")
        try:
            processes[name] = server_address(url)
        except ValueError as error:
            raise WrongOption(f"--processes: {name}: {error}") from error
    return processes


class PipelineCost(Wire):
    """Cost of one query of a pipeline, by process: means over `queries`, `lost` ones among them."""

    queries: Count
    lost: Count  # without an answer: their CPU is in the means
    seconds: FiniteFloat
    cpu_ms: FiniteFloat | None  # a query, over all processes; null where one of them does not report it
    processes: dict[str, ProcessCost]


@asynccontextmanager
async def process_reader(processes: Mapping[str, str]) -> AsyncIterator[Reader]:
    """Yields a function that reads every process, over kept connections. A process without a reading has a reason."""
    async with AsyncExitStack() as stack:
        clients: dict[bool, httpx.AsyncClient] = {}
        for of_elasticsearch in {name == ELASTICSEARCH for name in processes}:
            client = (
                _elasticsearch_client(processes[ELASTICSEARCH]) if of_elasticsearch else _client(processes.values())
            )
            clients[of_elasticsearch] = await stack.enter_async_context(client)

        async def read() -> Readings:
            return {name: await _read(clients[name == ELASTICSEARCH], name, url) for name, url in processes.items()}

        yield read


def _client(urls: Iterable[str]) -> httpx.AsyncClient:
    """Returns the client for /metrics, which is open to all: no key is sent."""
    encrypted = next((url for url in urls if url.startswith("https:")), "http:")
    return httpx.AsyncClient(timeout=READ_WITHIN_S, trust_env=False, verify=read_access().context(encrypted))


def _elasticsearch_client(url: str) -> httpx.AsyncClient:
    """Returns the client for an Elasticsearch, with the key and the authority that the lexical service has for it."""
    access = read_elasticsearch_access()
    return httpx.AsyncClient(
        timeout=READ_WITHIN_S, trust_env=False, verify=access.context(), headers=access.headers(url)
    )


async def expect_processes(processes: Mapping[str, str]) -> None:
    """Raises EvaluationError with every process that does not report its CPU time or memory."""
    async with process_reader(processes) as read:
        silent = [
            f"{name}={processes[name]} ({reading.reason})"
            for name, reading in (await read()).items()
            if reading.cpu_s is None and reading.memory_bytes is None
        ]
    if silent:
        raise EvaluationError(f"--processes: nothing can be read at {', '.join(silent)}; nothing was sent")


def costs_between(before: Readings, after: Readings) -> dict[str, ProcessCost]:
    """Returns the cost of each process between two readings. One that was started anew meanwhile has no CPU time."""
    return {name: _between(reading, after[name]) for name, reading in before.items()}


def started_anew(before: ProcessReading, after: ProcessReading) -> bool:
    """Returns whether another process answers than before, as far as the two readings show."""
    if before.cpu_s is not None and after.cpu_s is not None and after.cpu_s < before.cpu_s:
        return True
    if before.started_s is None or after.started_s is None:
        return False
    return abs(after.started_s - before.started_s) > SAME_START_S


def summed_costs(parts: Sequence[Mapping[str, ProcessCost]]) -> dict[str, ProcessCost]:
    """Adds up the CPU time of each process over several spans; memory is that after the last one.

    A process that misses its CPU time in one of them has none, and the first reason.
    """
    return {
        name: ProcessCost(
            cpu_ms=known_sum(part[name].cpu_ms for part in parts),
            memory_bytes=last.memory_bytes,
            reason=next((part[name].reason for part in parts if part[name].reason), None),
        )
        for name, last in (parts[-1] if parts else {}).items()
    }


def mean_cost(costs: Mapping[str, ProcessCost], queries: int, lost: int, seconds: float) -> PipelineCost:
    """Divides the CPU time of processes by the number of queries that they worked on."""
    each = {
        name: cost.model_copy(update={"cpu_ms": None if cost.cpu_ms is None else cost.cpu_ms / max(1, queries)})
        for name, cost in costs.items()
    }
    total = known_sum(cost.cpu_ms for cost in each.values())
    return PipelineCost(queries=queries, lost=lost, seconds=seconds, cpu_ms=total, processes=each)


def known_sum(values: Iterable[float | None]) -> float | None:
    """Returns the sum; None where a value is missing."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None


def _between(before: ProcessReading, after: ProcessReading) -> ProcessCost:
    reason, cpu_ms = before.reason or after.reason, None
    if started_anew(before, after):
        reason = STARTED_ANEW
    elif before.cpu_s is not None and after.cpu_s is not None:
        cpu_ms = (after.cpu_s - before.cpu_s) * 1000
    return ProcessCost(cpu_ms=cpu_ms, memory_bytes=after.memory_bytes, reason=reason)


async def _read(http: httpx.AsyncClient, name: str, url: str) -> ProcessReading:
    of_elasticsearch = name == ELASTICSEARCH
    try:
        answer = await http.get(url + (_NODE_STATISTICS if of_elasticsearch else "/metrics"))
        answer.raise_for_status()
        return _parse_elasticsearch(answer.content) if of_elasticsearch else parse_exposition(answer.text)
    except httpx.HTTPStatusError as error:
        return ProcessReading(reason=f"HTTP {error.response.status_code}")
    except httpx.HTTPError as error:
        return ProcessReading(reason=str(error) or type(error).__name__)
    except (ValueError, ValidationError):
        return ProcessReading(reason="its statistics cannot be read")


def parse_exposition(text: str) -> ProcessReading:
    """Reads CPU and memory from Prometheus' text. Raises ValueError for other text."""
    from prometheus_client.parser import text_string_to_metric_families

    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels and math.isfinite(sample.value) and sample.value >= 0
    }
    memory = next((int(samples[name]) for name in _MEMORY if name in samples), None)
    cpu_s = samples.get(_CPU)
    missing = [what for what, value in (("CPU time", cpu_s), ("memory", memory)) if value is None]
    reason = f"it does not report its {' and '.join(missing)}" if missing else None
    return ProcessReading(cpu_s=cpu_s, memory_bytes=memory, reason=reason, started_s=samples.get(_START))


class _Node(BaseModel):
    cpu_ms: Count = Field(validation_alias=AliasPath("process", "cpu", "total_in_millis"))
    heap_bytes: Count = Field(validation_alias=AliasPath("jvm", "mem", "heap_committed_in_bytes"))
    other_bytes: Count = Field(validation_alias=AliasPath("jvm", "mem", "non_heap_committed_in_bytes"))
    now_ms: Count = Field(validation_alias=AliasPath("jvm", "timestamp"))  # since 1970
    uptime_ms: Count = Field(validation_alias=AliasPath("jvm", "uptime_in_millis"))


class _NodeStatistics(BaseModel):
    nodes: dict[str, _Node]


def _parse_elasticsearch(content: bytes) -> ProcessReading:
    """Adds up the nodes of a cluster. Its start is that of the youngest one."""
    nodes = _NodeStatistics.model_validate_json(content).nodes.values()
    return ProcessReading(
        cpu_s=sum(node.cpu_ms for node in nodes) / 1000,
        memory_bytes=sum(node.heap_bytes + node.other_bytes for node in nodes),
        started_s=max(((node.now_ms - node.uptime_ms) / 1000 for node in nodes), default=None),
    )
