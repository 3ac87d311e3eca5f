"""Compares the model that a vendor's client names with the served one.

A process serves one model, but such clients must send a name, mostly one of their vendor's. So any plain name is
accepted, and every answer names the served model in `X-Model`. A name that pins weights (`name@hash`, as in X-Model)
must be that of the served model, or the request is refused.
"""

from services.chassis.errors import UnknownModel

MODEL_HEADER = "x-model"


def check_requested_model(asked: str | None, served: str) -> None:
    """Raises UnknownModel if the requested name pins other weights than those `served` (`name@hash`)."""
    if asked is not None and "@" in asked and asked != served:
        raise UnknownModel(f"model: this process serves {served} and nothing else; send that name, or one without @.")


def is_served(asked: str | None, served: str) -> bool:
    """Returns whether the requested name, if any, is that of the served model."""
    return asked is None or asked in (served, served.partition("@")[0])
