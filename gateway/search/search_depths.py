"""Decides how many hits each search of a retrieve asks for, and what comes with them. Makes no search (sources.py), and
prices none."""

from dataclasses import dataclass

from services.contracts.base import DEEPEST
from services.contracts.documents import Included
from services.contracts.pipelines import Retrieve
from services.contracts.query import SearchRequest


@dataclass(frozen=True, slots=True)
class PlannedRetrieve:
    """A retrieve. `approximate`: by an approximate vector search. `alone`: no other stage reads its candidates.

    `stores`: its backend is the document store. `reranker`: the backend to which the next stage sends the texts of all
    its candidates.
    """

    stage: Retrieve
    approximate: bool
    alone: bool
    stores: bool = False
    reranker: str | None = None

    def depths(self, request: SearchRequest) -> tuple[int, ...]:
        """Returns the hits that each of its searches asks for: of the candidates, and of what is beneath them.

        Where the request wants no more than the candidates, one search gives them. A stage that is alone asks for no
        more hits than the request wants, unless the request wants to see or to count the candidates. Beneath the
        candidates, the depth does not depend on the request, because the order there would depend on it too. An
        approximate search for more hits may begin with others; any other search gives the candidates too.
        """
        top = self.stage.top
        if request.depth <= top:
            return (request.top if self._gives_hits_alone(request) else top,)
        return (top, DEEPEST) if self.approximate else (DEEPEST,)

    def beside(self, request: SearchRequest) -> tuple[Included, ...]:
        """Returns the parts of documents that come with the hits: those that are read next of all of them.

        Where only some of them are read, the others would cost more than a request for these.
        """
        if not self.stores or request.depth > self.stage.top:
            return ()
        if self.reranker is not None:
            return ("title", "text")
        return request.include if self._gives_hits_alone(request) and request.highlight is None else ()

    def _gives_hits_alone(self, request: SearchRequest) -> bool:
        return self.alone and request.explain != "candidates" and request.offset is None
