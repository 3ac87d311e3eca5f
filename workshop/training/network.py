"""Builds the torch network and runs pairs through it. Losses and updates are left to train.py."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

from workshop.training.groups import Group
from workshop.training.weights import read_weights

PADDED_TOKENS = 3072


def model_from(graph: Path, layers: int) -> BertForSequenceClassification:
    """Loads the network from an ONNX file; a missing pooler or classifier is initialised at random."""
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=512, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=1,
        attn_implementation="eager",
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    weights = {
        (name if name.startswith("classifier") else f"bert.{name}"): torch.from_numpy(value.copy())
        for name, value in read_weights(graph).items()
    }
    missing, unexpected = model.load_state_dict(weights, strict=False)
    fresh = [name for name in missing if "pooler" not in name and "classifier" not in name]
    if fresh or unexpected:
        raise SystemExit(f"{graph} does not hold this BERT: {fresh[:3]} missing, {list(unexpected)[:3]} unexpected.")
    for parameter in model.bert.embeddings.parameters():
        parameter.requires_grad = False
    return model


class GroupScorer:
    """Scores groups in length-sorted micro-batches."""

    def __init__(self, model: BertForSequenceClassification, tokenizer: Tokenizer, passages: Sequence[str]) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self._tokenizer = tokenizer
        self._passages = passages

    def __call__(self, groups: Sequence[Group], max_tokens: int) -> list[Tensor]:
        """Returns one tensor of logits a group."""
        rows = self._rows(groups, max_tokens)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].ids))
        outputs: dict[int, Tensor] = {}
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * len(rows[order[end]].ids) <= PADDED_TOKENS:
                end += 1
            batch = order[start:end]
            logits = self._forward([rows[place] for place in batch])
            outputs.update(zip(batch, logits, strict=True))
            start = end
        flat = torch.stack([outputs[place] for place in range(len(rows))])
        return list(flat.split([len(group.candidates) for group in groups]))

    def _rows(self, groups: Sequence[Group], max_tokens: int) -> list[Encoding]:
        self._tokenizer.enable_truncation(max_tokens, strategy="longest_first")
        pairs = [(group.query, self._passages[passage]) for group in groups for passage in group.candidates]
        return self._tokenizer.encode_batch(pairs)

    def _forward(self, rows: Sequence[Encoding]) -> Tensor:
        length = max(len(row.ids) for row in rows)

        def padded(values: Sequence[Sequence[int]]) -> Tensor:
            return torch.tensor([[*value, *[0] * (length - len(value))] for value in values], device=self.device)

        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            answer = self.model(
                input_ids=padded([row.ids for row in rows]),
                token_type_ids=padded([row.type_ids for row in rows]),
                attention_mask=padded([[1] * len(row.ids) for row in rows]),
            )
        return answer.logits[:, 0].float()
