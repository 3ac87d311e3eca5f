"""Files of API keys for tests: one key of each state, and the secrets that belong to them."""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from services.keys.key import KEY_SCOPES, Key, KeyScope, new_key
from services.keys.key_file import change_keys

TOKEN = "the-token-of-our-own-processes-in-tests"


@dataclass(frozen=True)
class Keys:
    """A file, and the secret of each of its keys by its name."""

    file: Path
    secrets: dict[str, str]

    def add(self, name: str, *scopes: KeyScope, **more: object) -> str:
        """Adds a key to the file. Returns its secret."""
        secret, key = new_key(name, scopes, **more)  # type: ignore[arg-type]
        change_keys(self.file, lambda keys: (*keys, key))
        self.secrets[name] = secret
        return secret

    def revoke(self, name: str) -> None:
        """Revokes a key."""
        identity, now = self.id_of(name), datetime.now(UTC)
        change_keys(
            self.file,
            lambda every: tuple(
                key.model_copy(update={"revoked": now}) if key.id == identity else key for key in every
            ),
        )

    def id_of(self, name: str) -> str:
        """Returns the id of a key."""
        return self.secrets[name].split("_")[1]


def made_keys(directory: Path) -> Keys:
    """Makes a file with a key of each scope, one of all scopes, and one expired and one revoked of all scopes."""
    keys = Keys(directory / "keys.json", {})
    for scope in KEY_SCOPES:
        keys.add(scope, scope)
    keys.add("all", *KEY_SCOPES)
    keys.add("expired", *KEY_SCOPES)
    keys.add("revoked", *KEY_SCOPES)
    now = datetime.now(UTC)

    def aged(key: Key) -> Key:
        match key.name:
            case "expired":
                return key.model_copy(update={"expires": now - timedelta(seconds=1)})
            case "revoked":
                return key.model_copy(update={"revoked": now})
            case _:
                return key

    change_keys(keys.file, lambda all_keys: tuple(aged(key) for key in all_keys))
    return keys


def typed(secret: str, user: str = "ann") -> dict[str, str]:
    """Returns the headers that a browser sends when its user has typed a secret as the password."""
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{secret}'.encode()).decode()}"}


def bearing(secret: str | None) -> dict[str, str]:
    """Returns the headers that carry a secret."""
    return {} if secret is None else {"authorization": f"Bearer {secret}"}
