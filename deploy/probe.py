"""`python probe.py /livez`: asks the service of this container on PROBE_PORT; status 0 only when it answers 200.

A container's health check: images have no curl, and importing the service for this would cost seconds of a core.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException

SECONDS = 2.0


def main(path: str, port: int) -> int:
    """Probes `port` of this machine; returns the exit status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        sys.stderr.write(f"{path} on port {port}: {error}\n")
        return 1
    finally:
        connection.close()
    if status != 200:
        sys.stderr.write(f"{path} on port {port} answered {status}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(os.environ["PROBE_PORT"])))
