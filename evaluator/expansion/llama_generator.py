"""Runs a language model in GGUF on llama.cpp, and shows it by three examples what a query of a passage is."""

from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from evaluator.errors import EvaluationError
from evaluator.expansion.query_generator import Logits, drawn_token, random_numbers, sha256_of

TOP, TEMPERATURE, PASSAGE_TOKENS, QUERY_TOKENS = 10, 0.7, 384, 32
# Added to the logits of the passage's tokens: a small model leaves the topic without it.
TOPIC_BIAS = 2.0
EXAMPLES = """\
Passage: Dough that is left in the refrigerator overnight ferments slowly. Yeast works at a fraction of its usual pace \
in the cold, while acids build up, so the crumb tastes fuller and the crust browns better.
Question: why does bread taste better when the dough stays in the fridge overnight

Passage: Yellow lower leaves and a sour smell from the pot point to waterlogged roots. Let the soil dry to a \
finger's depth before the next watering, and empty the saucer.
Question: my house plant has yellow leaves and the soil smells, am I watering too much

Passage: Library items may be renewed twice unless another reader has reserved them. Renewals are made at the desk, by \
telephone or online, up to the day on which the item is due.
Question: how often can I extend a borrowed book

"""
BEFORE, AFTER = "Passage:", "\nQuestion:"


class LlamaGenerator:
    """Evaluates the examples once, each passage once, and then draws its queries one after the other.

    The passage always begins a batch after the examples, so that no sum depends on the passages before.
    """

    def __init__(self, file: Path) -> None:
        """Opens the model. Raises EvaluationError."""
        self.weights_sha256 = sha256_of([file])
        self.settings = (
            f"top {TOP}, temperature {TEMPERATURE}, bias {TOPIC_BIAS}, {PASSAGE_TOKENS} and {QUERY_TOKENS} tokens, "
            f"{EXAMPLES}{BEFORE}{AFTER}"
        )
        try:
            # One thread: with more, sums may be added in another order, and a draw near a bound differs.
            self._model = llama_cpp.Llama(str(file), n_ctx=1024, n_threads=1, n_threads_batch=1, verbose=False)
        except ValueError as error:
            raise EvaluationError(f"{file}: llama.cpp cannot open it: {error}") from error
        self._model.eval(self._model.tokenize((EXAMPLES + BEFORE).encode(), add_bos=True))
        self._examples_end = int(self._model.n_tokens)

    def generate(self, passage: str, count: int, seed: int) -> Sequence[str]:
        """Returns `count` queries, each up to the end of its line."""
        tokens = self._model.tokenize(" ".join(["", *passage.split()]).encode(), add_bos=False)[:PASSAGE_TOKENS]
        named = sorted({token for token in tokens if any(map(str.isalnum, self._text([token])))})
        self._model.n_tokens = self._examples_end
        self._model.eval([*tokens, *self._model.tokenize(AFTER.encode(), add_bos=False)])
        passage_end, first = self._model.n_tokens, self._logits()
        queries = []
        for random in random_numbers(passage, count, seed):
            self._model.n_tokens = passage_end
            logits, drawn = first, list[int]()
            while len(drawn) < QUERY_TOKENS:
                biased = logits.copy()
                biased[named] += TOPIC_BIAS
                token = drawn_token(biased, TOP, TEMPERATURE, random)
                if token == self._model.token_eos() or "\n" in self._text([token]):
                    break
                drawn.append(token)
                self._model.eval([token])
                logits = self._logits()
            queries.append(self._text(drawn).strip())
        return queries

    def _logits(self) -> Logits:
        """Returns those after the last token, [vocabulary]."""
        pointer = llama_cpp.llama_get_logits_ith(self._model.ctx, -1)
        return np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab(),)).copy()

    def _text(self, tokens: list[int]) -> str:
        return str(self._model.detokenize(tokens).decode(errors="ignore"))
