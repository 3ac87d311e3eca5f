"""Makes what `SECURE=1` needs, in a stack's directory: an authority, a certificate for all processes, a token."""

import os
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.certificates import Authority, CertificateProblem, issue, make_authority
from deploy.local.ports import DEFAULT_PORTS, HOST
from deploy.local.problem import StackProblem
from services.files.disk_writes import naming

SECURE = "SECURE"
NAMES = ("localhost", HOST)
# The variables that a stack with SECURE=1 decides by itself.
CONTRADICTING = (
    "STACK_CA_FILE",
    *(f"{process.upper()}_TLS_{what}_FILE" for process in DEFAULT_PORTS for what in ("CERT", "KEY")),
)


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The files of one stack. Only its owner may enter their directory."""

    directory: Path

    @property
    def ca_file(self) -> Path:
        """What callers trust."""
        return self.directory / "ca.pem"

    @property
    def token_file(self) -> Path:
        """What our processes send each other, and what a person may send."""
        return self.directory / "token"

    @property
    def variables(self) -> dict[str, str]:
        """The settings of all processes. Their secrets are named by file, so no environment and no log holds them."""
        settings = {"STACK_CA_FILE": str(self.ca_file), "STACK_TOKEN_FILE": str(self.token_file)}
        for process in DEFAULT_PORTS:
            settings[f"{process.upper()}_TLS_CERT_FILE"] = str(self.directory / "stack.pem")
            settings[f"{process.upper()}_TLS_KEY_FILE"] = str(self.directory / "stack.key")
        return settings

    @property
    def caller_variables(self) -> list[str]:
        """Assignments before a command that calls the stack, as a shell takes them."""
        names = ("STACK_CA_FILE", "STACK_TOKEN_FILE")
        return [f"{name}={shlex.quote(self.variables[name])}" for name in names]

    def make(self) -> None:
        """Makes authority and token once, and the certificate anew. Raises StackProblem."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        authority = Authority(self.ca_file, self.directory / "ca.key")
        try:
            if not (authority.cert.exists() and authority.key.exists()):
                make_authority(authority.cert, authority.key)
            issue(authority, self.directory / "stack.pem", self.directory / "stack.key", NAMES)
        except CertificateProblem as problem:
            raise StackProblem(f"{problem} Nothing was started.") from problem
        if not self.token_file.exists():
            file = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with naming(self.token_file), os.fdopen(file, "w", encoding="utf-8") as stream:
                stream.write(f"{secrets.token_hex(32)}\n")


def secure_files(environment: Mapping[str, str], directory: Path) -> SecureFiles | None:
    """Returns the files of a stack with SECURE=1, which are not made yet; None without. Raises StackProblem."""
    chosen = environment.get(SECURE) or "0"
    if chosen not in ("0", "1"):
        raise StackProblem(f"{SECURE}={chosen} is none of the choices: take 1, or leave it out.")
    if chosen == "0":
        return None
    tokens = ("STACK_TOKEN", "STACK_TOKEN_FILE")
    if given := [name for name in (*CONTRADICTING, *tokens) if environment.get(name)]:
        raise StackProblem(
            f"{SECURE}=1 makes certificates and a token by itself: leave it out, or {', '.join(given)}; nothing was "
            "started."
        )
    return SecureFiles(directory / "secure")
