"""Builds the images that a node runs, and keeps them in one archive."""

import tempfile
from pathlib import Path

from tests.containers.built_images import build_base, build_image
from tests.containers.engine import opened_engine
from tests.support.processes import ROOT

ARCHIVE = ROOT / ".cache" / "containers" / "kubernetes.tar"
NAMES = ("gateway", "lexical", "dense", "late-interaction", "reranker", "evaluator")
# The tag of the overlay `dev`, and one for a roll-out of a new image.
TAG, NEXT_TAG = "dev", "next"
# It holds the network of a pod; the usual one cannot be pulled here.
SANDBOX = "retrieval-stack/sandbox:test"
IDLE = "import signal; signal.pause()"


def build_archive() -> None:
    """Writes ARCHIVE with every image under both tags, and SANDBOX. Raises NoEngineError."""
    with opened_engine() as engine, tempfile.TemporaryDirectory() as folder:
        build_base(engine)
        built = {name: build_image(engine, name) for name in NAMES}
        tags = [f"retrieval-stack/{name}:{tag}" for name in NAMES for tag in (TAG, NEXT_TAG)]
        for tag in tags:
            engine.docker("tag", built[tag.split("/")[1].split(":")[0]], tag)
        (Path(folder) / "Dockerfile").write_text(f'FROM {built["gateway"]}\nCMD ["python", "-c", "{IDLE}"]\n')
        engine.docker("build", "--tag", SANDBOX, folder)
        engine.docker("save", "--output", ARCHIVE, SANDBOX, *tags)
