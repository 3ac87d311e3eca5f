"""Decides how many hits each search of a retrieve asks for. Makes no search (sources.py), and prices none."""

from dataclasses import dataclass

from services.contracts.base import DEEPEST
from services.contracts.pipelines import Retrieve
from services.contracts.query import SearchRequest


@dataclass(frozen=True, slots=True)
class PlannedRetrieve:
    """A retrieve. `approximate`: by an approximate vector search. `alone`: no other stage reads its candidates."""

    stage: Retrieve
    approximate: bool
    alone: bool

    def depths(self, request: SearchRequest) -> tuple[int, ...]:
        """Returns the hits that each of its searches asks for: of the candidates, and of what is beneath them.

        Where the request wants no more than the candidates, one search gives them. A stage that is alone asks for no
        more hits than the request wants, unless the request wants to see or to count the candidates. Beneath the
        candidates, the depth does not depend on the request, because the order there would depend on it too. An
        approximate search for more hits may begin with others; any other search gives the candidates too.
        """
        top = self.stage.top
        if request.depth <= top:
            few = self.alone and request.explain != "candidates" and request.offset is None
            return (request.top if few else top,)
        return (top, DEEPEST) if self.approximate else (DEEPEST,)
