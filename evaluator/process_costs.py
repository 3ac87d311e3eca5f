"""Reads CPU time and memory of the processes behind the gateway, before and after some queries. Sends no query.

Knows three dialects: Prometheus' text (our services, a Qdrant server) and the node statistics of Elasticsearch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, FiniteFloat, ValidationError

from evaluator.errors import EvaluationError
from services.contracts.base import Count, Wire

READ_WITHIN_S = 5.0
ELASTICSEARCH = "elasticsearch"
_NODE_STATISTICS = "/_nodes/stats/process,jvm"
_MEMORY = ("process_resident_memory_bytes", "memory_resident_bytes")  # the second is Qdrant's name
_CPU = "process_cpu_seconds_total"


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """CPU seconds since its start and memory of one process; None where it does not say."""

    cpu_s: float | None = None
    memory_bytes: int | None = None
    reason: str | None = None  # why there is no reading


Readings = Mapping[str, ProcessReading]


class ProcessCost(Wire):
    """CPU of a process between two readings, and its memory at the second one.

    `cpu_ms` includes what it does without queries (polls, merges, garbage collection). Memory is the resident set; of
    Elasticsearch, which does not say it, what the JVM has committed.
    """

    cpu_ms: FiniteFloat | None
    memory_bytes: Count | None
    reason: str | None = None  # why a figure is missing


def parse_processes(text: str) -> dict[str, str]:
    """Reads `NAME=URL,NAME=URL`. The name `elasticsearch` means its statistics. Raises EvaluationError."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, url = item.partition("=")
        if not name or name in found or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise EvaluationError(f"--processes: {item}: write NAME=URL, as in dense=http://127.0.0.1:8002")
        found[name] = url.rstrip("/")
    return found


async def read_processes(processes: Mapping[str, str]) -> Readings:
    """Reads every process once. One that cannot be read has a reason instead."""
    async with httpx.AsyncClient(timeout=READ_WITHIN_S, trust_env=False) as http:
        return {name: await _read(http, name, url) for name, url in processes.items()}


def costs_between(before: Readings, after: Readings) -> dict[str, ProcessCost]:
    """Returns the cost of each process between two readings. One that was started anew meanwhile has no CPU time."""
    return {name: _between(reading, after[name]) for name, reading in before.items()}


def _between(before: ProcessReading, after: ProcessReading) -> ProcessCost:
    reason, cpu_ms = before.reason or after.reason, None
    if before.cpu_s is not None and after.cpu_s is not None:
        if after.cpu_s < before.cpu_s:
            reason = "it was started anew meanwhile"
        else:
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
    reason = f"it does not tell its {' and '.join(missing)}" if missing else None
    return ProcessReading(cpu_s=cpu_s, memory_bytes=memory, reason=reason)


class _Cpu(BaseModel):
    total_in_millis: Count


class _Process(BaseModel):
    cpu: _Cpu


class _Memory(BaseModel):
    heap_committed_in_bytes: Count
    non_heap_committed_in_bytes: Count


class _Jvm(BaseModel):
    mem: _Memory


class _Node(BaseModel):
    process: _Process
    jvm: _Jvm


class _NodeStatistics(BaseModel):
    nodes: dict[str, _Node]


def _parse_elasticsearch(content: bytes) -> ProcessReading:
    """Adds up the nodes of a cluster."""
    nodes = _NodeStatistics.model_validate_json(content).nodes.values()
    return ProcessReading(
        cpu_s=sum(node.process.cpu.total_in_millis for node in nodes) / 1000,
        memory_bytes=sum(
            node.jvm.mem.heap_committed_in_bytes + node.jvm.mem.non_heap_committed_in_bytes for node in nodes
        ),
    )
