"""`.venv/bin/python -m deploy.models.fetch [NAME ...]`: brings the models of models.yaml to disk, ready to be served.

Every file is compared with its sha256; a model appears in its folder whole or not at all, and a folder that is already
right is left alone. A cross-encoder's graph is prepared then. Two fetches of the same model wait for each other.
"""

import argparse
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.models.prepare import prepare
from deploy.models.sources import HUB, Surroundings, deliver, describe
from services.inference.digests import difference, mismatch
from services.inference.profiles import (
    CHECKPOINT,
    CONFIG,
    GRAPH,
    MODELS_FILE,
    ROOT,
    CrossEncoderProfile,
    EncoderProfile,
    ModelError,
    Source,
    load_profiles,
)

Profile = EncoderProfile | CrossEncoderProfile
Say = Callable[[str], None]


class OtherFilesError(ModelError):
    """A source delivered files that are not the pinned ones."""


def fetch(profile: Profile, directory: Path, surroundings: Surroundings, say: Say) -> Path:
    """Makes sure that `directory`/<name> holds the model as services open it, and returns that folder.

    The sources are tried in turn, and `say` is told in one line which one delivered; also of those that delivered other
    files than the pinned ones. Raises ModelError with the reason of each when none delivers, and as prepare does.
    """
    folder = directory / profile.name
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory / f".{profile.name}.lock"):
        if folder.is_dir() and difference(profile, folder) is None:
            say(f"{profile.name}: present and verified in {folder}")
        else:
            _bring(profile, folder, surroundings, say)
        if isinstance(profile, CrossEncoderProfile) and prepare(profile, folder):
            say(f"{profile.name}: prepared for ONNX Runtime on a CPU and for other engines")
    return folder


def _bring(profile: Profile, folder: Path, surroundings: Surroundings, say: Say) -> None:
    """Puts the files of the first source that delivers in the place of `folder`; the caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{profile.name}.") as scratch:
        reasons: list[str] = []
        refused: list[str] = []
        for number, source in enumerate(profile.sources):
            attempt = Path(scratch) / str(number)
            attempt.mkdir()
            try:
                _obtain(profile, source, attempt, surroundings)
            except ModelError as error:
                reasons.append(f"{describe(source)}: {str(error).rstrip('.')}.")
                if isinstance(error, OtherFilesError):
                    refused.append(reasons[-1])
                continue
            _swap(attempt, folder, Path(scratch) / "old")
            for reason in refused:
                say(f"{profile.name}: not taken from {reason}")
            say(f"{profile.name}: fetched from {describe(source)} into {folder}")
            return
    told = "".join(f"\n  {reason}" for reason in reasons)
    raise ModelError(f"{profile.name} could not be fetched from any of its {len(reasons)} sources:{told}")


def _obtain(profile: Profile, source: Source, folder: Path, surroundings: Surroundings) -> None:
    """Fills `folder` with exactly the files of the profile, each verified."""
    light = sorted((name for name in profile.files if name != GRAPH), key=lambda name: name != CONFIG)
    heavy = GRAPH if profile.checkpoint_sha256 is None else CHECKPOINT
    deliver(source, [*light, heavy], folder, surroundings)
    checkpoint = folder / CHECKPOINT
    if profile.checkpoint_sha256 is not None and checkpoint.exists():
        wrong = mismatch(checkpoint, profile.checkpoint_sha256) or mismatch(folder / CONFIG, profile.files[CONFIG])
        if wrong is not None:
            raise OtherFilesError(wrong)
        # Imported where a graph is built: a machine that gets its graph ready-made needs neither onnx nor safetensors.
        from deploy.models.bert_graph import build

        build(folder / CONFIG, checkpoint, folder / GRAPH)
        checkpoint.unlink()
    wrong = difference(profile, folder)
    if wrong is not None:
        raise OtherFilesError(wrong)


def _swap(new: Path, folder: Path, old: Path) -> None:
    """Puts `new` in the place of `folder`; a reader sees the old files, or the new ones, or for an instant none."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock; the kernel frees it when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 when every model asked for is there, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog=".venv/bin/python -m deploy.models.fetch", description="Fetch, verify and prepare models."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models of models.yaml (default: its default ones)")
    parser.add_argument("--directory", type=Path, default=Path(".models"), help="where models lie (default: .models)")
    parser.add_argument("--models", type=Path, default=MODELS_FILE, help="the list of models")
    chosen = parser.parse_args(arguments)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    surroundings = Surroundings(root=ROOT, hub=os.environ.get("HF_ENDPOINT") or HUB)
    failed = False
    try:
        profiles = load_profiles(chosen.models)
        names = chosen.names or [name for name, profile in profiles.items() if profile.default]
        unknown = [name for name in names if name not in profiles]
        if unknown:
            raise ModelError(f"{chosen.models} lists no model {', '.join(unknown)}; it has {', '.join(profiles)}.")
    except ModelError as error:
        say(str(error))
        return 1
    for name in names:
        try:
            fetch(profiles[name], chosen.directory, surroundings, say)
        except ModelError as error:
            say(str(error))
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
