"""`python probe.py /livez`: asks the service of this container on PROBE_PORT; status 0 only when it answers 200.

A container's health check: images have no curl, and importing the service for this would cost seconds of a core.
"""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection

SECONDS = 2.0


def main(path: str, port: int, *, tls: bool) -> int:
    """Probes `port` of this machine; returns the exit status."""
    connection = _over_tls(port) if tls else HTTPConnection("127.0.0.1", port, timeout=SECONDS)
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


def _over_tls(port: int) -> HTTPSConnection:
    """Returns a connection that accepts any certificate, as the kubelet's probes do.

    It stays in this container and carries no secret, and a certificate that callers object to is no reason to restart.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=context)


if __name__ == "__main__":
    # The service speaks TLS where it has a certificate (LEXICAL_TLS_CERT_FILE and so on).
    certificates = [value for name, value in os.environ.items() if name.endswith("_TLS_CERT_FILE")]
    sys.exit(main(sys.argv[1], int(os.environ["PROBE_PORT"]), tls=any(certificates)))
