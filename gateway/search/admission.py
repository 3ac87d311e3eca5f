"""Decides what a search costs, and in which lane it waits for its turn: ordinary searches never wait for deep ones."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from services.chassis.admission.limits import AdaptiveLimit, Held, Limiter, Rest
from services.chassis.calls.sockets import CONNECTIONS
from services.chassis.instruments import Instruments
from services.contracts.query import SearchRequest

# A search of cost 1: two retrieves of 200 hits for a query of at most 500 characters.
ORDINARY_HITS = 400
ORDINARY_CHARACTERS = 500
# A retrieve of few hits costs as much as half of that in the services on its way.
LEAST_COST = 0.5
# From this cost on a search is deep: as 1,000 hits in place of ten.
DEEP = 2.5
# Deep searches have this part of the limit, and of the time while there are ordinary ones, to which most of the cores
# are left.
DEEP_SHARE = 0.25


def search_cost(hits: Iterable[int], request: SearchRequest) -> float:
    """Returns the cost of a search: by the `hits` that each retrieve asks for, times the length of its query.

    A count of the matches costs as much as a retrieve of few hits, and so does sorting the candidates.
    """
    cost = sum(max(LEAST_COST, count / ORDINARY_HITS) for count in hits)
    cost += LEAST_COST * (request.counts + (request.sort is not None and bool(request.query)))
    return cost * max(1.0, len(request.query) / ORDINARY_CHARACTERS)


class Admission:
    """Owns the lanes of searches. A slot is held while a search retrieves; re-rankers bound their own work."""

    def __init__(self, most_in_flight: int, most_waiting: int, instruments: Instruments, rerank_share: float) -> None:
        self.rerank_share = rerank_share  # of the time left: the most for a re-ranking of texts that may be skipped
        # Searches wait for backends, which know what they can carry: the limits begin at their most, and shrink where a
        # backend refuses a search or lets it wait (walk.py).
        most_deep = max(1.0, DEEP_SHARE * most_in_flight)
        ordinary, deep = AdaptiveLimit(most_in_flight, most_in_flight), AdaptiveLimit(most_deep, most_deep)
        self.ordinary = Limiter("search", ordinary, most_waiting, instruments)
        rest = Rest(lambda: self.ordinary.begun, DEEP_SHARE)
        self._deep = Limiter("deep", deep, most_waiting, instruments, rest)
        self._rerankers: dict[str, Limiter] = {}
        self._instruments = instruments

    def reranking(self, backend: str, within_s: float, client: str) -> AbstractAsyncContextManager[Held]:
        """Holds a slot for a re-ranking by this backend. Raises Overloaded at once where it has as many as it can do.

        None waits: its search answers without it, and reads no texts for it. The limit follows what the backend does.
        A client has its part of it, although others have taken all.
        """
        if backend not in self._rerankers:
            limit = AdaptiveLimit(CONNECTIONS, CONNECTIONS)
            self._rerankers[backend] = Limiter(backend, limit, 0, self._instruments)
        return self._rerankers[backend].slot(within_s, client=client)

    def refuses_reranking(self, backend: str) -> bool:
        """Returns whether a re-ranking by this backend was refused of late."""
        return backend in self._rerankers and self._rerankers[backend].refuses

    def slot(self, cost: float, within_s: float, client: str) -> AbstractAsyncContextManager[Held]:
        """Holds a slot for a search that must have retrieved within `within_s` seconds. Raises Overloaded."""
        lane = self._deep if cost >= DEEP else self.ordinary
        return lane.slot(within_s, cost=cost, client=client)
