"""Builds the TLS context by which our processes check each other, and explains why one was refused."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from services.chassis.settings.configuration import ConfigurationError
from services.files.regular_file import expect_regular

CA_FILE = "STACK_CA_FILE"


def caller_context(ca_file: Path | None, variable: str = CA_FILE) -> ssl.SSLContext:
    """Returns the context of a caller, which checks certificate and host name.

    `ca_file`: the one authority that counts; None: those of the system. Raises ConfigurationError, naming `variable`.
    """
    try:
        if ca_file is not None:
            expect_regular(ca_file)
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{variable}: {ca_file} holds no certificate in PEM.") from error
    except OSError as error:
        raise ConfigurationError(f"{variable}: {ca_file}: {error.strerror}.") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def context_for(url: str, ca_file: Path | None, variable: str = CA_FILE) -> ssl.SSLContext:
    """Returns the context of a caller of one URL: `caller_context`, but with a plain URL no authority of the system.

    Reading the system's authorities takes 20 ms, and no plain URL uses them. This context refuses every certificate.
    """
    if ca_file is None and url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return caller_context(ca_file, variable)


def certificate_fault(error: BaseException | None) -> str | None:
    """Returns why a certificate was refused, if that is what an error or its cause is; without any address."""
    for cause in _causes(error):
        fault = getattr(cause, "certificate_error", cause)
        if isinstance(fault, ssl.SSLCertVerificationError):
            # "Hostname mismatch, certificate is not valid for '10.0.0.7'."
            return (fault.verify_message or fault.reason or "it is not trusted").partition(",")[0].lower()
    return None


def scheme_fault(url: str, error: BaseException | None) -> str | None:
    """Returns what to write where a call failed because its URL has the wrong one of http:// and https://.

    A TLS server closes the connection of a plain request, like one that stops: so this tries a handshake, for
    two seconds at most. Call it in a thread where an event loop runs.
    """
    parts = urlsplit(url)
    if parts.scheme == "https":
        faults = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
        final = any(not isinstance(fault, (ssl.SSLCertVerificationError, ssl.SSLEOFError)) for fault in faults)
        return "it answers a TLS handshake with something else: write http:// if it speaks no TLS" if final else None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    try:
        with (
            socket.create_connection((parts.hostname or "", parts.port or 80), 2.0) as opened,
            context.wrap_socket(opened, server_hostname=parts.hostname),
        ):
            return "it speaks TLS: write https://"
    except (OSError, ValueError):
        return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
