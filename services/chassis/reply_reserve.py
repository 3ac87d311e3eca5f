"""The time kept back from a deadline for the answer: work ends earlier, so that the answer arrives in time."""

from dataclasses import dataclass

from services.chassis.deadlines import Deadline

SHARE = 0.1


@dataclass(frozen=True, slots=True)
class ReplyReserve:
    """A tenth of the time that remains, within bounds in seconds."""

    least_s: float
    most_s: float

    def before(self, deadline: Deadline) -> Deadline:
        """Returns the moment at which work must end for the answer to be in time."""
        return Deadline(deadline.at - min(self.most_s, max(self.least_s, SHARE * deadline.remaining_s)))


# Of a search: fusing the rankings, writing the answer, and a time slice of a busy scheduler.
FOR_A_SEARCH = ReplyReserve(least_s=0.01, most_s=0.25)
# Of partial scores: the answer is written, travels, and meets a busy event loop at the caller. An answer that is late
# is lost whole; one that lacks a few scores is nearly whole.
FOR_SCORES = ReplyReserve(least_s=0.008, most_s=0.05)
# Writing one hit of a search, in seconds: twice the 6 ms that 1,000 took to write and send on two shared cores. Kept
# back by a re-ranking, which would make the answer late otherwise.
WRITING_S_PER_HIT = 12e-6
