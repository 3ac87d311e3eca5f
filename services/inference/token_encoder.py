"""Encodes each token of a text as one vector (ColBERT, Khattab & Zaharia, SIGIR 2020, sections 3.2 and 3.3).

Owns markers, filling, pooling and normalisation. open_model runs the graph, which holds the projection.
"""

import asyncio
import string
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.contracts.explanation import Match
from services.inference.explained_matches import best_matches
from services.inference.idf import COMMAND, read_idf
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.profiles import TOKENIZER, ModelError, TokenEncoderProfile
from services.storage.representation import MultiVector, Storage, TokenVectors, Vector

Float32 = NDArray[np.float32]
MASK = "[MASK]"
# WordPiece's mark of a piece that continues a word.
CONTINUES = "##"
# Those of Lucene's EnglishAnalyzer.
STOP_WORDS = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)  # fmt: skip


class TokenEncoder:
    """Encodes queries and passages with one model; implements the port of the vector services, ExplainingEncoder.

    Every vector has length 1, so the dot product of two is their cosine. Special tokens and markers have vectors too.
    Punctuation of passages has none, as in ColBERT; the profile's `pooling` says what else has none. With IDF, query
    vectors have their weight as length.
    """

    def __init__(
        self,
        profile: TokenEncoderProfile,
        folder: Path,
        engine: Engine | None = None,
        *,
        query_tokens: int | None = None,
        passage_tokens: int | None = None,
        storage: Storage = "turbo4",
        idf: Path | None = None,
    ) -> None:
        """Opens the model in `folder` (blocking, below a second). Raises ModelError if it is not the declared one, or
        reads fewer tokens than a limit. The limits are by default those of the profile. `storage`: what a store
        keeps of the vectors. `idf`: a table of weights of query tokens."""
        self._query_tokens = query_tokens or profile.query_tokens
        self._passage_tokens = passage_tokens or profile.max_tokens
        if (longest := max(self._query_tokens, self._passage_tokens)) > profile.max_tokens:
            raise ModelError(f"{profile.name} reads {profile.max_tokens} tokens of a text, not {longest}.")
        self._model = OpenModel(profile, folder, engine or Engine(), inputs="documents")
        tokenizer = self._model.tokenizer
        self._query_marker, self._passage_marker = (
            [tokenizer.token_id(marker)] if marker else [] for marker in (profile.query_marker, profile.passage_marker)
        )
        self._mask_id = tokenizer.token_id(MASK) if profile.fill_queries else None
        words = profile.pooling == "words"
        without = tokenizer.ids((*string.punctuation, *(STOP_WORDS if words else ())))
        self._without = np.unique([ids[0] for ids in without if len(ids) == 1])
        # Ids of pieces that continue a word: none where each token has its own vector.
        pieces = tokenizer.ids_by_piece() if words else {}
        self._continuing = np.array([identity for piece, identity in pieces.items() if piece.startswith(CONTINUES)])
        if words and not self._continuing.size:
            raise ModelError(f"{profile.name}: pooling of words needs a tokenizer that marks pieces with {CONTINUES}.")
        table = read_idf(idf, tokenizer) if idf is not None else None
        if table is not None and not table.weights[tokenizer.single([]).ids].any():
            raise ModelError(
                f"{idf} gives the special tokens around a query no weight, so some queries would have none at all; "
                f"write it with `{COMMAND}`."
            )
        self._idf = table
        self.representation = MultiVector(profile.dimension, storage)
        self.stamp: Mapping[str, str] = {
            "model": profile.name,
            "weights_sha256": self._model.weights_sha256,
            "tokenizer_sha256": profile.files[TOKENIZER],
            "precision": profile.computation(),
            "query_marker": profile.query_marker,
            "passage_marker": profile.passage_marker,
            "query_tokens": str(self._query_tokens),
            "fill_queries": str(profile.fill_queries).lower(),
            "max_tokens": str(self._passage_tokens),
            "dimension": str(profile.dimension),
            "schema": "1",
            **({"pooling": profile.pooling} if words else {}),
            **({"idf_sha256": table.sha256} if table is not None else {}),
        }

    async def encode_query(self, text: str, deadline: Deadline | None = None) -> TokenVectors:
        """Encodes one query: fp32 [tokens, dimension]. Queries are scheduled before waiting passages.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        return await self._model.infer_text(text, self._query_rows, self._weighted, deadline)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline | None = None) -> list[TokenVectors]:
        """Encodes each passage, in their order: fp32 [tokens or words, dimension]; raises like encode_query."""
        if not texts:
            return []
        rows = await self._model.document_rows(texts, self._passage_rows, deadline)
        return await self._model.infer(rows, self._pooled, deadline)

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline | None = None
    ) -> list[tuple[Match, ...]]:
        """Returns, for each token of the query, the passage's token of the largest dot product, which adds to MaxSim.

        Of a passage, the largest comes first, equal ones in the query's order. A token of the query has its IDF as
        weight, or 1 without a table, that of the passage the dot product. Raises like encode_query.
        """
        query_vectors = await self._model.infer_text(query, self._query_rows, _all_tokens, deadline)
        (query_row,) = await self._model.map_texts([query], self._query_rows, deadline, urgent=True)
        weights = self._query_weights(query_row)
        rows = await self._model.map_texts(passages, self._passage_rows, deadline, urgent=True)
        names = [list(map(self._model.tokenizer.piece, query_row.ids)), *map(self._names, rows)]
        pairs = zip(vectors, names[1:], strict=True)
        return await asyncio.to_thread(
            lambda: [best_matches(query_vectors, names[0], weights, *pair) for pair in pairs]
        )

    async def close(self) -> None:
        """Stops the threads after their current micro-batches."""
        self._model.close()

    def _weighted(self, hidden: Float32, rows: Sequence[Row]) -> list[TokenVectors]:
        pairs = zip(_all_tokens(hidden, rows), rows, strict=True)
        return [vectors * self._query_weights(row)[:, np.newaxis] for vectors, row in pairs]

    def _query_weights(self, row: Row) -> Float32:
        """Returns the weight of each token of a query: [tokens]."""
        return np.ones(len(row.ids), dtype=np.float32) if self._idf is None else self._idf.weights[row.ids]

    def _query_rows(self, texts: list[str]) -> list[Row]:
        rows = [
            self._model.tokenizer.single(ids, self._query_marker, self._query_tokens)
            for ids in self._model.tokenizer.ids(texts)
        ]
        return rows if self._mask_id is None else [self._filled(row, self._mask_id) for row in rows]

    def _filled(self, row: Row, mask_id: int) -> Row:
        """Appends [MASK], to which no token attends (section 3.2; `attend_to_mask_tokens` is false there)."""
        missing = self._query_tokens - len(row.ids)
        return Row([*row.ids, *[mask_id] * missing], [*row.types, *[0] * missing], missing)

    def _passage_rows(self, texts: list[str]) -> list[Row]:
        return [
            self._model.tokenizer.single(ids, self._passage_marker, self._passage_tokens)
            for ids in self._model.tokenizer.ids(texts)
        ]

    def _pooled(self, hidden: Float32, rows: Sequence[Row]) -> list[TokenVectors]:
        return [self._of_passage(_unit(hidden[place, : len(row.ids)]), row) for place, row in enumerate(rows)]

    def _of_passage(self, vectors: TokenVectors, row: Row) -> TokenVectors:
        kept, starts = self._words(row)
        return vectors[kept] if len(starts) == len(kept) else _unit(np.add.reduceat(vectors[kept], starts, axis=0))

    def _words(self, row: Row) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the places of a passage's tokens that have a vector, and where in these each word begins."""
        word = np.cumsum(np.isin(row.ids, self._continuing, invert=True))
        alone = np.bincount(word)[word] == 1
        kept = np.flatnonzero(~(np.isin(row.ids, self._without) & alone))
        return kept, np.flatnonzero(np.diff(word[kept], prepend=-1))

    def _names(self, row: Row) -> list[str]:
        """Returns what each vector of a passage stands for."""
        kept, starts = self._words(row)
        pieces = [self._model.tokenizer.piece(row.ids[place]) for place in kept]
        words = np.split(np.array(pieces, dtype=object), starts[1:])
        return [word[0] + "".join(piece.removeprefix(CONTINUES) for piece in word[1:]) for word in words]


def _all_tokens(hidden: Float32, rows: Sequence[Row]) -> list[TokenVectors]:
    return [_unit(hidden[place, : len(row.ids)]) for place, row in enumerate(rows)]


def _unit(vectors: TokenVectors) -> TokenVectors:
    """Scales each row to length 1, in a copy: a view would keep the whole batch in memory."""
    with np.errstate(invalid="ignore"):  # 0/0 gives NaN, for which OpenModel raises
        unit: TokenVectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
