"""Opens the client of Elasticsearch, without retries, and bounds each call by the request's deadline."""

from pathlib import Path
from typing import Any

from elastic_transport.client_utils import DEFAULT, DefaultType
from elasticsearch import AsyncElasticsearch
from elasticsearch.serializer import JsonSerializer
from pydantic_core import from_json

from services.chassis.deadlines import current_deadline
from services.chassis.errors import DeadlineExceeded
from services.chassis.telemetry import request_id


class ExactJsonSerializer(JsonSerializer):
    """Reads an answer of 100 hits in a third of the time of the standard library, whole numbers of any size exactly.

    orjson reads a whole number beyond 64 bits as a float, which changes a document's metadata and content hash.
    """

    def json_loads(self, data: bytes) -> Any:
        """Returns the value of the text. Raises ValueError for text that is not JSON."""
        return from_json(data)


def open_client(url: str, api_key: str | None, ca_file: Path | None, connections: int) -> AsyncElasticsearch:
    """Opens a client that connects on its first call. Raises ValueError naming a setting that is wrong."""
    if ca_file is not None and not ca_file.is_file():
        raise ValueError(f"ELASTICSEARCH_CA_FILE names {ca_file}, which is no file; name the CA's PEM file.")
    ca_certs: DefaultType | str = DEFAULT if ca_file is None else str(ca_file)
    return AsyncElasticsearch(
        url,
        api_key=api_key,
        ca_certs=ca_certs,
        connections_per_node=connections,
        serializers={ExactJsonSerializer.mimetype: ExactJsonSerializer()},
        # The default is three immediate retries on 429, 502, 503 and 504, which multiplies the load under overload.
        max_retries=0,
        retry_on_timeout=False,
    )


def within_deadline(client: AsyncElasticsearch) -> AsyncElasticsearch:
    """Returns the client for one call: bounded by the request's deadline, with its id for Elasticsearch's logs."""
    remaining_s = current_deadline().remaining_s
    if not remaining_s:  # aiohttp takes 0 as no timeout
        raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
    return client.options(request_timeout=remaining_s, opaque_id=request_id())
