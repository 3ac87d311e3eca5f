"""Converts texts to token ids, and token ids to the truncated rows that a graph takes. Padding is left to session.

Ignores truncation and padding of tokenizer.json, which differ by export: `max_tokens` of models.yaml is the limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from services.inference.passages import Offsets
from services.inference.profiles import ModelError


@dataclass(frozen=True, slots=True)
class Row:
    """One input of a graph, unpadded: token ids and segment ids, of equal length.

    The last `unattended` tokens have an output, and no token attends to them. `cut` tokens were truncated.
    """

    ids: list[int]
    types: list[int]
    unattended: int = 0
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Template:
    """Special tokens around and between the inputs, e.g. [CLS] a [SEP] b [SEP]."""

    before: Row
    between: Row
    after: Row
    first_type: int
    second_type: int

    @property
    def length(self) -> int:
        return len(self.before.ids) + len(self.between.ids) + len(self.after.ids)


class ModelTokenizer:
    """Tokenises and truncates for one model. Thread-safe; `ids` releases the GIL."""

    def __init__(self, file: Path, max_tokens: int) -> None:
        """Opens a tokenizer.json; raises ModelError when it cannot be read."""
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # tokenizers raises no subclass
            raise ModelError(f"{file} is not a tokenizer.json that can be read: {error}.") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._file = file
        self._single = self._single_template(file)
        self._pair = self._pair_template(file)
        self._max_tokens = max_tokens
        added = self._tokenizer.get_added_tokens_decoder().items()
        # Those around inputs, and those that tokenizer.json marks: [PAD], [UNK] and [MASK] of a BERT.
        self.special_ids = {
            *self._single.before.ids,
            *self._single.after.ids,
            *(identity for identity, token in added if token.special),
        }
        # Of a word that no pieces make up, in vocabularies of BERT and of RoBERTa, whose number 0 is another.
        self.unknown_id = self._tokenizer.token_to_id("[UNK]") or self._tokenizer.token_to_id("<unk>") or -1

    def piece(self, identity: int) -> str:
        """Returns the word piece of an id: `##ing`."""
        return self._tokenizer.id_to_token(identity) or f"#{identity}"

    def ids_by_piece(self) -> dict[str, int]:
        """Returns the id of every word piece, special ones among them."""
        return self._tokenizer.get_vocab()

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each text, without special tokens, before truncation."""
        encoded = self._tokenizer.encode_batch_fast([_clean(text) for text in texts], add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def located(self, texts: Sequence[str]) -> list[tuple[list[int], Offsets]]:
        """Returns the token ids of each text, as `ids` does, and of each token the characters that it was made from."""
        encoded = self._tokenizer.encode_batch([_clean(text) for text in texts], add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encoded]

    def single(self, ids: list[int], marker: Sequence[int] = (), max_tokens: int | None = None) -> Row:
        """Adds the special tokens to one text, and truncates its end at the limit, or at `max_tokens`.

        `marker` stands before the text, behind the special tokens.
        """
        template = self._single
        kept = [*marker, *ids][: (max_tokens or self._max_tokens) - template.length]
        return Row(
            [*template.before.ids, *kept, *template.after.ids],
            [*template.before.types, *[template.first_type] * len(kept), *template.after.types],
            cut=len(marker) + len(ids) - len(kept),
        )

    def pair(self, first: list[int], second: list[int]) -> Row:
        """Adds the special tokens to two texts; truncates the longer first (`longest_first` of tokenizers)."""
        template = self._pair
        kept = truncated_pair_lengths(len(first), len(second), self._max_tokens - template.length)
        a, b = first[: kept[0]], second[: kept[1]]
        return Row(
            [*template.before.ids, *a, *template.between.ids, *b, *template.after.ids],
            [
                *template.before.types,
                *[template.first_type] * len(a),
                *template.between.types,
                *[template.second_type] * len(b),
                *template.after.types,
            ],
        )

    def pair_room(self, first: list[int]) -> int:
        """Returns how many tokens of a long second text `pair` keeps beside the first."""
        budget = self._max_tokens - self._pair.length
        return truncated_pair_lengths(len(first), budget, budget)[1]

    def token_id(self, token: str) -> int:
        """Returns the id of a token of the vocabulary. Raises ModelError if it has none."""
        identity = self._tokenizer.token_to_id(token)
        if identity is None:
            raise ModelError(f"{self._file} has no token {token}.")
        return identity

    def single_length(self, ids: list[int]) -> int:
        """Counts the tokens of one text with its special tokens, before truncation."""
        return len(ids) + self._single.length

    def pair_length(self, first: list[int], second: list[int]) -> int:
        """Counts the tokens of two texts with their special tokens, before truncation."""
        return len(first) + len(second) + self._pair.length

    def _single_template(self, file: Path) -> _Template:
        bare = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a")
        start = _find(whole.ids, bare, 0, file)
        end = start + len(bare)
        kind = whole.type_ids[start]
        return _Template(_part(whole, 0, start), Row([], []), _part(whole, end, len(whole.ids)), kind, kind)

    def _pair_template(self, file: Path) -> _Template:
        bare_a, bare_b = (self._tokenizer.encode(text, add_special_tokens=False).ids for text in ("a", "b"))
        whole = self._tokenizer.encode("a", "b")
        start_a = _find(whole.ids, bare_a, 0, file)
        end_a = start_a + len(bare_a)
        start_b = _find(whole.ids, bare_b, end_a, file)
        end_b = start_b + len(bare_b)
        return _Template(
            _part(whole, 0, start_a),
            _part(whole, end_a, start_b),
            _part(whole, end_b, len(whole.ids)),
            whole.type_ids[start_a],
            whole.type_ids[start_b],
        )


def truncated_pair_lengths(first: int, second: int, budget: int) -> tuple[int, int]:
    """Returns how many tokens of each text longest_first keeps: the shorter one stays whole up to half of `budget`."""
    if first + second <= budget:
        return first, second
    half = budget // 2
    if first <= second:
        return (first, budget - first) if first <= half else (half, budget - half)
    return (budget - second, second) if second <= half else (budget - half, half)


def _clean(text: str) -> str:
    """Replaces what no tokenizer accepts: joins surrogate pairs; lone surrogates become U+FFFD, NUL a space."""
    text = text.replace("\0", " ")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _part(encoding: Encoding, start: int, end: int) -> Row:
    return Row(encoding.ids[start:end], encoding.type_ids[start:end])


def _find(ids: list[int], wanted: list[int], start: int, file: Path) -> int:
    for place in range(start, len(ids) - len(wanted) + 1):
        if wanted and ids[place : place + len(wanted)] == wanted:
            return place
    raise ModelError(f"{file} does not put its special tokens around its inputs unchanged, as those of encoders do.")
