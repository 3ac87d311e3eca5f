"""Encodes each passage of a document, so that a search scores documents by the best one (MaxP, Dai and Callan 2019)."""

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput
from services.contracts.documents import Document
from services.contracts.passages import Passages
from services.dense.encoder import DenseEncoder
from services.inference.read_tokens import TextTokens, collected, record
from services.storage.representation import MOST_COMPONENTS, MultiVector, TokenVectors


class PassageEncoder:
    """Implements DocumentEncoder over another encoder. A document has a row for each passage, a query one row: their
    MaxSim is the score of the best passage."""

    def __init__(self, inner: DenseEncoder, passages: Passages) -> None:
        self._inner = inner
        self._passages = passages
        self.representation = MultiVector(inner.representation.dimension, "fp32")
        cut = f"tokens={passages.tokens} overlap={passages.overlap}"
        self.stamp: Mapping[str, str] = {**inner.stamp, "passages": cut}

    async def encode_query(self, text: str, deadline: Deadline) -> TokenVectors:
        """Encodes one query: fp32 [1, dimension]."""
        return (await self._inner.encode_query(text, deadline))[np.newaxis]

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> list[TokenVectors]:
        """Encodes documents without a title."""
        return await self.encode_documents([Document(id="-", text=text) for text in texts], deadline)

    async def encode_documents(self, documents: Sequence[Document], deadline: Deadline) -> list[TokenVectors]:
        """Encodes a document's passages: fp32 [passages, dimension]. Raises BadInput for more than a store takes."""
        texts = [(document.title, document.text) for document in documents]
        cut = await self._inner.cut(texts, self._passages, deadline)
        most = MOST_COMPONENTS // self.representation.dimension
        if (longest := max(map(len, cut), default=0)) > most:
            raise BadInput(f"Its text has {longest} passages, and at most {most} are stored; send it in parts.")
        with collected() as counted:
            every = [passage for passages in cut for passage in passages]
            rows = iter(await self._inner.encode_passages(every, deadline))
        if counted:  # by passage; a document is read whole
            parts = iter(counted)
            sums = ([*map(sum, zip(*islice(parts, len(passages)), strict=True))] for passages in cut)
            record(TextTokens(read, unknown, 0) for read, unknown, _ in sums)
        return [np.stack(list(islice(rows, len(passages)))) for passages in cut]

    async def close(self) -> None:
        """Closes the inner encoder."""
        await self._inner.close()
