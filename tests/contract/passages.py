"""A query and passages that every model must cope with: fitting, foreign, empty, too long, not English."""

from services.chassis.deadlines import Deadline

QUERY = "how to true a bent wheel"
PASSAGES = (
    "Truing a bent wheel means tightening and loosening spokes until the rim runs straight.",
    "Bread dough rests twice.",
    "",
    "wheel " * 400,
    "Räder zentrieren 🚲 — ein Rad, das eiert.",
)


def soon() -> Deadline:
    return Deadline.after_ms(60_000)
