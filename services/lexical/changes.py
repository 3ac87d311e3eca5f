"""Changes generations: checks the build that they belong to, and keeps each document's writes in order of version."""

from collections.abc import Sequence
from typing import TypeVar

from services.contracts.collections import CollectionDeclaration, CollectionState
from services.contracts.documents import DeleteReport, Document, IndexReport
from services.lexical.engine import LexicalEngine
from services.storage.builds import refuse_other_build, refuse_published
from services.storage.write_order import Write, WriteOrder, WriteTurn, overtaken

Report = TypeVar("Report", IndexReport, DeleteReport)


class Changes:
    """Owns the order of writes to an engine. Every change goes through it."""

    def __init__(self, engine: LexicalEngine) -> None:
        self._engine = engine
        self._order = WriteOrder()

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None, owner: str | None
    ) -> CollectionState:
        """Begins an empty generation, or returns the existing one of this declaration and build."""
        return await self._order.change(generation, lambda: self._engine.begin(generation, declaration, build, owner))

    async def finish(self, generation: str, build: str | None) -> CollectionState:
        """Makes everything searchable. Returns the state with the digest of all documents."""
        await self._engine.finish(generation)
        digest = await self._engine.digest(generation)
        state = await self._engine.state(generation)
        refuse_other_build(generation, state.build, build)
        return state.model_copy(update={"digest": digest})

    async def publish(self, generation: str, build: str | None, publication: int | None) -> CollectionState:
        """Publishes a generation in place of the one that was published before."""

        async def work() -> CollectionState:
            await self._refuse_other_build(generation, build)
            return await self._engine.publish(generation, publication)

        return await self._order.change(generation, work)

    async def drop(self, generation: str, build: str | None, *, keep_published: bool) -> None:
        """Removes a generation. Raises Conflict if it is published and `keep_published` is set."""

        async def work() -> None:
            await self._refuse_other_build(generation, build)
            if keep_published:
                refuse_published(generation, published=(await self._engine.state(generation)).published)
            await self._engine.drop(generation)
            self._order.forget(generation)

        await self._order.change(generation, work)

    async def index(self, write: Write, documents: Sequence[Document]) -> IndexReport:
        """Adds or replaces documents, except those with a newer write."""

        async def work(turn: WriteTurn) -> IndexReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [document for document in documents if document.id not in turn.overtaken]
            report = IndexReport(indexed=0, unchanged=0)
            if timely:
                report = await self._engine.index(write.generation, timely, turn.version)
            return _with_overtaken(report, turn)

        return await self._order.write(write, [document.id for document in documents], work)

    async def delete(self, write: Write, ids: Sequence[str]) -> DeleteReport:
        """Removes documents, except those with a newer write."""

        async def work(turn: WriteTurn) -> DeleteReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [one for one in ids if one not in turn.overtaken]
            report = DeleteReport(deleted=0)
            if timely:
                report = await self._engine.delete(write.generation, timely, turn.version)
            refused = {error.id for error in report.errors}
            turn.record_deleted(one for one in timely if one not in refused)
            return _with_overtaken(report, turn)

        return await self._order.write(write, ids, work)

    async def _refuse_other_build(self, generation: str, build: str | None) -> None:
        if build is not None:
            refuse_other_build(generation, await self._engine.build(generation), build)


def _with_overtaken(report: Report, turn: WriteTurn) -> Report:
    latest = max((report.latest_version or 0, *turn.overtaken.values())) or None
    errors = (*report.errors, *map(overtaken, turn.overtaken))
    return report.model_copy(update={"errors": errors, "latest_version": latest})
