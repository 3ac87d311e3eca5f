"""Changes to a generation: for the build that it belongs to, and each document's writes in order of version."""

from collections.abc import Sequence

from services.contracts.collections import CollectionDeclaration, CollectionState
from services.contracts.documents import DeleteReport, Document, IndexReport
from services.lexical.engine import LexicalEngine
from services.storage.builds import refuse_other_build, refuse_published
from services.storage.write_order import Turn, Write, WriteOrder, overtaken


class Changes:
    """Owns the order of writes to an engine: all that changes something goes through here."""

    def __init__(self, engine: LexicalEngine) -> None:
        self._engine = engine
        self._order = WriteOrder()

    async def begin(self, generation: str, declaration: CollectionDeclaration, build: str | None) -> CollectionState:
        """Begins an empty generation, or finds the one of this declaration and build."""
        return await self._order.change(generation, lambda: self._engine.begin(generation, declaration, build))

    async def finish(self, generation: str, build: str | None) -> CollectionState:
        """Makes everything searchable; the state tells the digest of all documents."""
        await self._engine.finish(generation)
        digest = await self._engine.digest(generation)
        state = await self._engine.state(generation)
        refuse_other_build(generation, state.build, build)
        return state.model_copy(update={"digest": digest})

    async def publish(self, generation: str, build: str | None) -> CollectionState:
        """Makes this generation the published one of its name."""

        async def work() -> CollectionState:
            await self._refuse_other_build(generation, build)
            return await self._engine.publish(generation)

        return await self._order.change(generation, work)

    async def drop(self, generation: str, build: str | None, *, keep_published: bool) -> None:
        """Removes a generation; raises Conflict when it is published and was to be removed only if it is not."""

        async def work() -> None:
            await self._refuse_other_build(generation, build)
            if keep_published:
                refuse_published(generation, published=(await self._engine.state(generation)).published)
            await self._engine.drop(generation)
            self._order.forget(generation)

        await self._order.change(generation, work)

    async def index(self, write: Write, documents: Sequence[Document]) -> IndexReport:
        """Adds or replaces the documents that no newer write has overtaken."""

        async def work(turn: Turn) -> IndexReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [document for document in documents if document.id not in turn.overtaken]
            report = IndexReport(indexed=0, unchanged=0)
            if timely:
                report = await self._engine.index(write.generation, timely, turn.version)
            refused = {error.id for error in report.errors}
            turn.took(document.id for document in timely if document.id not in refused)
            return report.model_copy(
                update={
                    "errors": (*report.errors, *map(overtaken, turn.overtaken)),
                    "latest_version": _later(report.latest_version, turn.latest_version),
                }
            )

        return await self._order.write(write, [document.id for document in documents], work)

    async def delete(self, write: Write, ids: Sequence[str]) -> DeleteReport:
        """Removes the documents that no newer write has overtaken."""

        async def work(turn: Turn) -> DeleteReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [one for one in ids if one not in turn.overtaken]
            report = DeleteReport(deleted=0)
            if timely:
                report = await self._engine.delete(write.generation, timely, turn.version)
            refused = {error.id for error in report.errors}
            turn.took(one for one in timely if one not in refused)
            return report.model_copy(
                update={
                    "errors": (*report.errors, *map(overtaken, turn.overtaken)),
                    "latest_version": _later(report.latest_version, turn.latest_version),
                }
            )

        return await self._order.write(write, ids, work)

    async def _refuse_other_build(self, generation: str, build: str | None) -> None:
        if build is not None:
            refuse_other_build(generation, (await self._engine.state(generation)).build, build)


def _later(*versions: int | None) -> int | None:
    return max((one for one in versions if one is not None), default=None)
