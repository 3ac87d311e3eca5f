"""Plants a secret of its own in every secret setting of every process, and finds them in what the processes show."""

import base64
import importlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from services.chassis.settings.configuration import secret_variables
from services.chassis.settings.service_settings import ServiceSettings
from tests.support.keys import Keys

ROOT = Path(__file__).resolve().parents[2]


def settings_of_processes() -> tuple[type[ServiceSettings], ...]:
    """Returns the settings of every process, found by their files: a new one cannot be forgotten."""
    files = sorted([*ROOT.glob("*/settings.py"), *ROOT.glob("services/*/settings.py")])
    modules = [importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts)) for file in files]
    found = {
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, ServiceSettings) and one.model_config.get("env_prefix")
    }
    return tuple(sorted(found, key=lambda one: one.__module__))


def new_secret(of: str) -> str:
    """Returns a secret that says what it was planted in, and occurs nowhere else."""
    return f"planted-{of.lower().replace('_', '-')}-{secrets.token_hex(12)}"


def forms(secret: str) -> Iterator[bytes]:
    """Yields a secret as it is and in base64, also where other text stands before it (`user:secret`)."""
    yield secret.encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret.encode()).rstrip(b"=")
        # Its first and last characters depend on what stands beside it.
        yield encoded[(0, 2, 3)[before] : -1]


@dataclass(frozen=True)
class PlantedSecrets:
    """Secrets by where they were planted: a variable of settings, or a header of requests."""

    by_place: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def everywhere(cls) -> "PlantedSecrets":
        """Plants one in every secret setting, two in STACK_TOKEN, and one for callers without rights."""
        variables = {name for settings in settings_of_processes() for name in secret_variables(settings)}
        places = {*variables, "STACK_TOKEN of before", "the key of nobody", "the password in an address"}
        planted = {place: new_secret(place.replace(" ", "-")) for place in places}
        if "GATEWAY_API_KEY" in planted:
            # The gateway must accept it.
            planted["GATEWAY_API_KEY"] = planted["STACK_TOKEN of before"]
        return cls(planted)

    def with_keys(self, keys: Keys) -> "PlantedSecrets":
        """Adds API keys. A key's id may be shown (audit lines say it), its secret part may not."""
        return replace(self, by_place={**self.by_place, **{f"key {n}": k[-48:] for n, k in keys.secrets.items()}})

    def environment(self, settings: type[ServiceSettings]) -> dict[str, str]:
        """Returns the secret variables of a process."""
        found = {name: self.by_place[name] for name in secret_variables(settings)}
        if "STACK_TOKEN" in found:
            found["STACK_TOKEN"] += f" {self.by_place['STACK_TOKEN of before']}"
        return found

    def found_in(self, *shown: bytes) -> set[str]:
        """Returns the places of the secrets that these texts show."""
        return {
            place
            for place, secret in self.by_place.items()
            if any(form in text for form in forms(secret) for text in shown)
        }

    def found_below(self, folder: Path, besides: Iterable[Path] = ()) -> dict[str, set[str]]:
        """Returns the files that show secrets, with their places; names of files count too."""
        files = [file for file in folder.rglob("*") if not any(file.is_relative_to(one) for one in besides)]
        shown = {
            str(file): self.found_in(str(file).encode(), file.read_bytes() if file.is_file() else b"") for file in files
        }
        return {file: places for file, places in shown.items() if places}
