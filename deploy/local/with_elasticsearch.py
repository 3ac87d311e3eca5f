"""`python -m deploy.local.with_elasticsearch DATA COMMAND ...`: becomes the command once that Elasticsearch is up.

The command gets its address, authority and key, which is new at every start of the server, by its environment.
"""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from deploy.elasticsearch.data_lock import read_record
from deploy.local.running_stack import READY_WITHIN_S

POLL_S = 0.2


def elasticsearch_variables(data: Path) -> dict[str, str] | None:
    """Returns the settings by which a client reaches the secured server of a data directory; None until it is up."""
    record = read_record(data)
    if record is None:
        return None
    settings = {"ELASTICSEARCH_URL": record.endpoint.url, "ELASTICSEARCH_API_KEY_FILE": ""}
    if record.endpoint.ca_file is not None:
        settings["ELASTICSEARCH_CA_FILE"] = str(record.endpoint.ca_file)
    if record.endpoint.api_key is not None:
        settings["ELASTICSEARCH_API_KEY"] = record.endpoint.api_key
    return settings


def main(data: Path, command: list[str]) -> NoReturn:
    """Waits, and replaces this process. Exits with a sentence where the server does not come up."""
    ends_at = time.monotonic() + READY_WITHIN_S
    while (settings := elasticsearch_variables(data)) is None:
        if time.monotonic() > ends_at:
            sys.exit(f"The Elasticsearch on {data} was not ready within {READY_WITHIN_S:.0f} s.")
        time.sleep(POLL_S)
    os.execve(command[0], command, {**os.environ, **settings})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
