"""Owns the certificate of a process's port: TLS 1.2 or newer, read again when its files change.

Leaves handshakes to tls_connection.py, and whom a caller trusts to trust.py.
"""

import logging
import ssl
from pathlib import Path

from services.chassis.instruments import Instruments
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import ServiceSettings
from services.files.regular_file import FileSignature, expect_regular, file_signature

logger = logging.getLogger(__name__)


class Certificate:
    """The certificate and key of a listener. `refresh` replaces them in a running listener when their files change."""

    def __init__(self, cert_file: Path, key_file: Path, names: tuple[str, str], instruments: Instruments) -> None:
        """`names` are the variables of the two files. Raises ConfigurationError for a pair that cannot be used."""
        self._files = (cert_file, key_file)
        self._names = names
        self._loads = instruments.certificate_loads
        self._signatures = self._signed()
        self._current = self._loaded()
        # New connections are handed to the current context, so that a pair is replaced as a whole or not at all.
        self.context = self._current
        self.context.sni_callback = self._choose

    def refresh(self) -> None:
        """Reads the pair again if a file has changed. A pair that cannot be used is logged once; the old one stays."""
        signatures = self._signed()
        if signatures == self._signatures:
            return
        # Noted before reading: a file replaced meanwhile differs at the next look.
        self._signatures = signatures
        try:
            self._current = self._loaded()
        except ConfigurationError as error:
            self._loads.labels("refused").inc()
            logger.error("the certificate has changed and cannot be used, so the one before stays: %s", error)
        else:
            self._loads.labels("loaded").inc()
            logger.info("the certificate has changed: new connections get the new one")

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if connection.context is not self._current:
            connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        cert_file, key_file = self._files
        for file, name in zip(self._files, self._names, strict=True):
            try:
                expect_regular(file)  # the library of TLS would wait at a pipe
            except OSError as error:
                raise ConfigurationError(f"{name}: {file}: {error.strerror}.") from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A caller may not make us compute a handshake again and again on one connection (TLS 1.2).
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # The empty password is wrong for an encrypted key, which would else ask the terminal.
            context.load_cert_chain(cert_file, key_file, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise ConfigurationError(
                f"{' and '.join(self._names)}: {cert_file} and {key_file} are no certificate with its private key in "
                f"PEM ({reason.lower().replace('_', ' ')}): name those of one certificate, the key not encrypted."
            ) from error
        return context

    def _signed(self) -> tuple[FileSignature | None, ...]:
        return tuple(file_signature(file) for file in self._files)


def certificate_of(settings: ServiceSettings, instruments: Instruments) -> Certificate | None:
    """Returns the certificate of a process's port; None for plain HTTP. Raises ConfigurationError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    prefix = settings.model_config.get("env_prefix", "")
    names = (f"{prefix}TLS_CERT_FILE", f"{prefix}TLS_KEY_FILE")
    return Certificate(settings.tls_cert_file, settings.tls_key_file, names, instruments)
