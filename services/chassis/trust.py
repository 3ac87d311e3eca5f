"""Owns whom a caller trusts: the TLS context by which our processes check each other, and why one was refused."""

import ssl
from pathlib import Path

from services.chassis.configuration import ConfigurationError

CA_FILE = "STACK_CA_FILE"


def caller_context(ca_file: Path | None) -> ssl.SSLContext:
    """Returns the context of a caller, which checks certificate and host name.

    `ca_file`: the one authority that counts; None: those of the system. Raises ConfigurationError, naming the variable.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{CA_FILE}: {ca_file} holds no certificate in PEM.") from error
    except OSError as error:
        raise ConfigurationError(f"{CA_FILE}: {ca_file}: {error.strerror}.") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def context_for(url: str, ca_file: Path | None) -> ssl.SSLContext:
    """Returns the context of a caller of one URL: `caller_context`, but with a plain URL no authority of the system.

    Nothing uses the context of a plain URL, and reading the system's authorities takes 20 ms. Should anything use it,
    it refuses every certificate.
    """
    if ca_file is None and url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return caller_context(ca_file)


def certificate_fault(error: BaseException | None) -> str | None:
    """Returns why a certificate was refused, if that is what an error or its cause is; without any address."""
    while error is not None:
        found = getattr(error, "certificate_error", error)
        if isinstance(found, ssl.SSLCertVerificationError):
            # "Hostname mismatch, certificate is not valid for '10.0.0.7'."
            return (found.verify_message or found.reason or "it is not trusted").partition(",")[0].lower()
        error = error.__cause__ or error.__context__
    return None
