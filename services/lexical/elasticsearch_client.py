"""The connection to Elasticsearch: no retries of its own, and the time that the request has left."""

from pathlib import Path

from elastic_transport.client_utils import DEFAULT, DefaultType
from elasticsearch import AsyncElasticsearch

from services.chassis.deadlines import current_deadline
from services.chassis.errors import DeadlineExceeded
from services.chassis.telemetry import request_id


def open_client(url: str, api_key: str | None, ca_file: Path | None, connections: int) -> AsyncElasticsearch:
    """A client that connects when it is first asked. Raises ValueError naming the setting that is of no use."""
    if ca_file is not None and not ca_file.is_file():
        raise ValueError(f"ELASTICSEARCH_CA_FILE names {ca_file}, which is no file; name the CA's PEM file.")
    ca_certs: DefaultType | str = DEFAULT if ca_file is None else str(ca_file)
    return AsyncElasticsearch(
        url,
        api_key=api_key,
        ca_certs=ca_certs,
        connections_per_node=connections,
        # Its default is three, at once, on 429, 502, 503 and 504: under overload that is three times the load.
        max_retries=0,
        retry_on_timeout=False,
    )


def in_time(client: AsyncElasticsearch) -> AsyncElasticsearch:
    """The client for one call: bounded by the request's deadline, its id in Elasticsearch's own logs."""
    remaining_s = current_deadline().remaining_s
    if not remaining_s:  # to aiohttp 0 means without end
        raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
    return client.options(request_timeout=remaining_s, opaque_id=request_id())
