"""`python -m workshop.training.genq`: fine-tunes an encoder on generated queries of a collection, without judgments.

GenQ of Thakur et al. 2021 (arXiv 2104.08663, section 4): each query and its document are a pair, the documents of the
other pairs of a batch are the negatives. Loss: cross-entropy over cosine × 20 (Henderson et al. 2017, section 4.4).
Reads the corpus and a file of `workshop.doc2query`; no query and no judgment of the collection.
"""

import argparse
import json
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm
from transformers import BertModel

from services.inference.digests import file_sha256
from services.inference.profiles import CONFIG, GRAPH, MODELS_FILE, TOKENIZER, EncoderProfile, load_encoder
from workshop.training.export import encoder_graph
from workshop.training.generated_pairs import Pair, batches, read_pairs
from workshop.training.network import model_from

SCALE = 20.0


class TrainedEncoder:
    """Encodes texts as the dense service does, with gradients."""

    def __init__(self, model: BertModel, tokenizer: Tokenizer, profile: EncoderProfile, tokens: int) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(min(tokens, profile.max_tokens))
        self._model, self._tokenizer, self._profile = model, tokenizer, profile

    def queries(self, texts: Sequence[str]) -> Tensor:
        """Returns unit vectors, [texts, width]."""
        return self._encode([self._profile.query_prefix + text for text in texts])

    def passages(self, texts: Sequence[str]) -> Tensor:
        """Returns unit vectors, [texts, width]."""
        return self._encode([self._profile.passage_prefix + text for text in texts])

    def _encode(self, texts: Sequence[str]) -> Tensor:
        rows = [torch.tensor(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self._model.device)
        lengths = torch.tensor([len(row) for row in rows], device=ids.device)
        mask = (torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]).long()
        # A CPU without bf16 of its own takes 25 times as long with it.
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=ids.device.type == "cuda"):
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        if self._profile.pooling == "cls":
            return functional.normalize(hidden[:, 0])
        return functional.normalize((hidden * mask[..., None]).sum(1) / lengths[:, None])


def train(
    encoder: TrainedEncoder,
    model: BertModel,
    passages: Sequence[str],
    pairs: Sequence[Pair],
    chosen: argparse.Namespace,
) -> None:
    """Trains for one epoch."""
    steps = list(batches(pairs, chosen.batch, random.Random(chosen.seed)))
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=chosen.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / (0.1 * len(steps)), max(0.02, 1 - step / len(steps)))
    )
    shown = tqdm(steps, unit="batch")
    for batch in shown:
        scores = SCALE * (
            encoder.queries([query for query, _ in batch]) @ encoder.passages([passages[place] for _, place in batch]).T
        )
        loss = functional.cross_entropy(scores, torch.arange(len(batch), device=scores.device))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        schedule.step()
        shown.set_postfix(loss=f"{loss.item():.3f}", refresh=False)


def entry(name: str, start: EncoderProfile, folder: Path, dataset: str) -> str:
    """Returns the model's entry for models.yaml."""
    trained = start.trained_on if isinstance(start.trained_on, tuple) else ()
    fields = {
        "name": name, "kind": "encoder", "default": False, "dimension": start.dimension, "pooling": start.pooling,
        "normalise": True, "query_prefix": start.query_prefix, "passage_prefix": start.passage_prefix,
        "max_tokens": start.max_tokens, "precision": "fp32",
        "trained_on": [*trained, f"queries generated for {dataset}"],
        "files": {file: file_sha256(folder / file) for file in (GRAPH, TOKENIZER, CONFIG)},
        "sources": [{"kind": "directory", "path": str(folder)}],
    }  # fmt: skip
    return f"  - {json.dumps(fields)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("dataset", type=Path, help="a directory in BEIR layout; its corpus is read")
    parser.add_argument("queries", type=Path, help="doc2query.jsonl of that corpus")
    parser.add_argument("--start", default="all-MiniLM-L6-v2", help="a BERT of models.yaml")
    parser.add_argument("--models", type=Path, default=Path(".models"))
    parser.add_argument("--out", type=Path, required=True, help="the folder of the model; its name is the model's")
    parser.add_argument("--batch", type=int, default=48, help="pairs a step")
    parser.add_argument("--rate", type=float, default=2e-5, help="peak learning rate, linear to 0")
    parser.add_argument("--tokens", type=int, default=192, help="tokens of a passage that training reads")
    parser.add_argument("--seed", type=int, default=17)
    chosen = parser.parse_args()
    profile = load_encoder(MODELS_FILE, chosen.start)
    if profile.pooling not in ("mean", "cls") or profile.width is not None or not profile.normalise:
        raise SystemExit(f"{chosen.start}: this trains the mean or the first token vector, of unit length.")
    passages, pairs = read_pairs(chosen.dataset, chosen.queries)
    torch.manual_seed(chosen.seed)
    start = chosen.models / chosen.start
    layers = json.loads((start / CONFIG).read_text())["num_hidden_layers"]
    model = model_from(start / GRAPH, layers).bert.to("cuda" if torch.cuda.is_available() else "cpu")
    encoder = TrainedEncoder(model, Tokenizer.from_file(str(start / TOKENIZER)), profile, chosen.tokens)
    print(f"{len(pairs)} queries of {len(passages)} documents", file=sys.stderr)
    train(encoder, model, passages, pairs, chosen)
    weights = {name: value.contiguous().cpu().numpy() for name, value in model.state_dict().items()}
    graph = encoder_graph(weights)
    onnx.checker.check_model(graph)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / GRAPH).write_bytes(graph.SerializeToString(deterministic=True))
    for file in (TOKENIZER, CONFIG):
        shutil.copyfile(start / file, chosen.out / file)
    print(entry(chosen.out.name, profile, chosen.out.resolve(), chosen.dataset.resolve().name))


if __name__ == "__main__":
    main()
