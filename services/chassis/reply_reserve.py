"""Owns the time that is reserved before a deadline, so that the answer can be written and arrives in time."""

from dataclasses import dataclass

from services.chassis.deadlines import Deadline

SHARE = 0.1


@dataclass(frozen=True, slots=True)
class ReplyReserve:
    """Reserves a tenth of the remaining time, within bounds in seconds."""

    least_s: float
    most_s: float

    def before(self, deadline: Deadline) -> Deadline:
        """Returns the earlier deadline by which the work must end."""
        return Deadline(deadline.at - min(self.most_s, max(self.least_s, SHARE * deadline.remaining_s)))


# For a search: fusing the rankings, writing the answer, and one time slice of a busy scheduler.
FOR_A_SEARCH = ReplyReserve(least_s=0.01, most_s=0.25)
# For partial scores: writing and sending the answer, and a busy event loop at the caller. All scores of a late answer
# are lost; an answer in time lacks only a few.
FOR_SCORES = ReplyReserve(least_s=0.008, most_s=0.05)
# Seconds to write one hit of a search: twice the 6 ms that 1,000 hits took to write and send on two shared cores. A
# re-ranking reserves them; the answer would be late otherwise.
WRITING_S_PER_HIT = 12e-6
