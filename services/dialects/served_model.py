"""Which model a vendor's client asks for, and which one answers.

Such clients must send some name, most often one of their vendor's, and a process serves one model. So a name is taken
as the habit that it is, and every answer says in `X-Model` who made it; a name that pins weights (`name@first 12 digits
of their sha256`, as in X-Model) is meant: another model than that is refused.
"""

from services.chassis.errors import UnknownModel

MODEL_HEADER = "x-model"


def check_asked(asked: str | None, served: str) -> None:
    """Raises UnknownModel when the asked name pins other weights than those `served` (`name@hash`)."""
    if asked is not None and "@" in asked and asked != served:
        raise UnknownModel(f"model: this process serves {served} and nothing else; send that name, or one without @.")


def is_served(asked: str | None, served: str) -> bool:
    """Whether the asked name, if any, is the served model's own."""
    return asked is None or asked in (served, served.partition("@")[0])
