"""How a Qdrant server reads numbers of JSON, and that versions of documents are compared exactly nevertheless.

The suites of the stores and of the lexical engines check filters by numbers.
"""

import math
import random
import struct
from pathlib import Path

import httpx
import pytest
import qdrant_edge as edge
from qdrant_client import AsyncQdrantClient

from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.qdrant_models import older_filter, point_struct
from services.vectorstore.store_qdrant import QdrantStore
from tests.support.qdrant_double import qdrant_double, read_as_server
from tests.support.vectors import SPEC, axis, point

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


async def test_a_version_is_not_older_than_itself_in_any_year() -> None:
    transport = httpx.ASGITransport(app=qdrant_double())
    client = AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)
    await QdrantStore(QdrantClients(client, client)).create(SPEC)
    # Microseconds, until 2080.
    versions = [1_750_000_000_000_000 + place * 10**14 + part for place in range(18) for part in range(4)]
    for version in versions:
        held = point_struct(point("a", axis(1.0)), SPEC.representation, version)
        await client.upsert("notes@1", [held])
        older = [(await client.count("notes@1", older_filter(one))).count for one in (version, version + 1)]
        assert older == [0, 1], version
    await client.close()


def test_the_double_reads_numbers_as_the_engine_does(tmp_path: Path) -> None:
    drawn = random.Random(7)
    numbers = [one for (one,) in struct.iter_unpack("<d", drawn.randbytes(8 * 2_000)) if math.isfinite(one)]
    numbers += [drawn.choice((1, -1)) * drawn.uniform(0, 10 ** drawn.randint(-7, 17)) for _ in range(2_000)]
    shard = edge.EdgeShard.create(str(tmp_path), edge.EdgeConfig(edge.EdgeVectorParams(1, edge.Distance.Dot)))
    points: list[edge.Point] = [edge.Point(place, [1.0], {"year": one}) for place, one in enumerate(numbers)]
    shard.update(edge.UpdateOperation.upsert_points(points))
    # Edge keeps payloads as JSON, which it reads by the library of the server.
    held = shard.retrieve([*range(len(numbers))], with_payload=True, with_vector=False)
    read = {one.id: one.payload["year"] for one in held if one.payload}
    assert [read[place] for place in range(len(numbers))] == [read_as_server(repr(one)) for one in numbers]
    assert any(read[place] != one for place, one in enumerate(numbers))
    shard.close()
