"""What an answer needs after the last score: to be written, to travel, and to meet a busy event loop there."""

from services.chassis.deadlines import Deadline

# A caller that got nothing in time has nothing; one that got a few scores less has nearly all.
SHARE = 0.1
LEAST_S = 0.008
MOST_S = 0.05


def answer_by(deadline: Deadline) -> Deadline:
    """The moment at which scoring must end for the answer to be in time."""
    return Deadline(deadline.at - min(MOST_S, max(LEAST_S, SHARE * deadline.remaining_s)))
