"""Runs a language model in GGUF on llama.cpp, and shows it by three examples what a query of a passage is."""

from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from evaluator.errors import EvaluationError
from workshop.doc2query.query_generator import Logits, drawn_token, random_numbers, sha256_of

TOP, TEMPERATURE, PASSAGE_TOKENS, QUERY_TOKENS = 10, 0.7, 384, 24
# Added to the logit of each word piece of the passage until a query has it: a small model leaves the topic without it,
# and repeats itself with it ever after. Function words need none: the stop words of Lucene's EnglishAnalyzer.
TOPIC_BIAS = 3.0
NOT_BIASED = (
    " a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with "
)
EXAMPLES = (
    (
        "Dough that is left in the refrigerator overnight ferments slowly. Yeast works at a fraction of its usual pace "
        "in the cold, while acids build up, so the crumb tastes fuller and the crust browns better.",
        "why does bread taste better when the dough stays in the fridge overnight",
    ),
    (
        "Yellow lower leaves and a sour smell from the pot point to waterlogged roots. Let the soil dry to a finger's "
        "depth before the next watering, and empty the saucer.",
        "house plant has yellow leaves and the soil smells bad",
    ),
    (
        "Library items may be renewed twice unless another reader has reserved them. Renewals are made at the desk, by "
        "telephone or online, up to the day on which the item is due.",
        "how often can I extend a borrowed book",
    ),
)
BEFORE = "<|im_start|>user\nWrite the search query that this text answers.\nText:"
AFTER = "<|im_end|>\n<|im_start|>assistant\nQuery:"
END = "<|im_end|>\n"
SHOWN = "".join(f"{BEFORE} {passage}{AFTER} {query}{END}" for passage, query in EXAMPLES) + BEFORE


class LlamaGenerator:
    """Evaluates the examples once, each passage once, and then draws its queries one after the other.

    The passage always begins a batch after the examples, so that no sum depends on the passages before.
    """

    def __init__(self, file: Path) -> None:
        """Opens the model. Raises EvaluationError."""
        self.weights_sha256 = sha256_of([file])
        self.settings = (
            f"top {TOP}, temperature {TEMPERATURE}, bias {TOPIC_BIAS} without{NOT_BIASED}, {PASSAGE_TOKENS} and "
            f"{QUERY_TOKENS} tokens, {SHOWN}{AFTER}"
        )
        try:
            # One thread: with more, sums may be added in another order, and a draw near a bound differs.
            self._model = llama_cpp.Llama(str(file), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)
        except ValueError as error:
            raise EvaluationError(f"{file}: llama.cpp cannot open it: {error}") from error
        self._model.eval(self._model.tokenize(SHOWN.encode(), special=True))
        self._examples_end = int(self._model.n_tokens)

    def generate(self, passage: str, count: int, seed: int) -> Sequence[str]:
        """Returns `count` queries, each up to the end of its line."""
        tokens = self._model.tokenize(" ".join(["", *passage.split()]).encode(), add_bos=False)[:PASSAGE_TOKENS]
        topic = {token for token in tokens if self._names(token)}
        self._model.n_tokens = self._examples_end
        self._model.eval([*tokens, *self._model.tokenize(AFTER.encode(), add_bos=False, special=True)])
        passage_end, first = self._model.n_tokens, self._logits()
        queries = []
        for random in random_numbers(passage, count, seed):
            self._model.n_tokens = passage_end
            logits, drawn = first, list[int]()
            while len(drawn) < QUERY_TOKENS:
                biased = logits.copy()
                biased[sorted(topic.difference(drawn))] += TOPIC_BIAS
                token = drawn_token(biased, TOP, TEMPERATURE, random)
                if token == self._model.token_eos() or "\n" in self._text([token]):
                    break
                drawn.append(token)
                self._model.eval([token])
                logits = self._logits()
            queries.append(self._text(drawn).strip())
        return queries

    def _names(self, token: int) -> bool:
        """Returns whether a word piece can name a topic."""
        piece = self._text([token]).strip().lower()
        return any(map(str.isalnum, piece)) and f" {piece} " not in NOT_BIASED

    def _logits(self) -> Logits:
        """Returns those after the last token, [vocabulary]."""
        pointer = llama_cpp.llama_get_logits_ith(self._model.ctx, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab(),)).copy()

    def _text(self, tokens: list[int]) -> str:
        return str(self._model.detokenize(tokens).decode(errors="ignore"))
