"""Fetches the models of models.yaml to disk, ready to be served: `.venv/bin/python -m deploy.models.fetch [NAME ...]`.

Owns the order of sources, verification by sha256, the lock and the atomic replacement of a model's folder; a verified
folder is left as it is. How a source delivers is left to sources, preparing a cross-encoder's graph to prepare.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.models.precision import MODELS, choose_precision, read_cpuinfo
from deploy.models.prepare import prepare
from deploy.models.sources import HUB, MAVEN, FetchOptions, deliver, describe
from services.files.disk_writes import end_command
from services.files.regular_file import locked
from services.inference.digests import file_mismatch, folder_mismatch
from services.inference.profiles import (
    CHECKPOINT,
    CONFIG,
    GRAPH,
    MODELS_FILE,
    ROOT,
    CrossEncoderProfile,
    FetchedProfile,
    GeneratorProfile,
    ModelError,
    ModelProfile,
    Source,
    load_profiles,
)

Report = Callable[[str], None]


class DigestMismatchError(ModelError):
    """Raised when a source delivers files with another sha256 than the pinned one."""


def fetch(profile: FetchedProfile, directory: Path, options: FetchOptions, report: Report) -> Path:
    """Makes `directory`/<name> hold the verified and prepared model, and returns that folder.

    Tries the sources in order. Reports in one line which one delivered, and in one line each source whose files had
    another sha256. Raises ModelError with the reason of each source when none delivers, or when preparing fails.
    """
    folder = directory / profile.name
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / f".{profile.name}.lock"):
        if folder.is_dir() and folder_mismatch(profile, folder) is None:
            report(f"{profile.name}: present and verified in {folder}")
        else:
            _fetch_from_sources(profile, folder, options, report)
        if isinstance(profile, CrossEncoderProfile) and prepare(profile, folder):
            report(f"{profile.name}: prepared for ONNX Runtime on a CPU and on a GPU")
    return folder


def _fetch_from_sources(profile: FetchedProfile, folder: Path, options: FetchOptions, report: Report) -> None:
    """Replaces `folder` by the files of the first source that delivers; the caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{profile.name}.") as scratch:
        reasons: list[str] = []
        mismatches: list[str] = []
        for number, source in enumerate(profile.sources):
            attempt = Path(scratch) / str(number)
            attempt.mkdir()
            try:
                _deliver_and_verify(profile, source, attempt, options)
            except ModelError as error:
                reasons.append(f"{describe(source)}: {str(error).rstrip('.')}.")
                if isinstance(error, DigestMismatchError):
                    mismatches.append(reasons[-1])
                continue
            _replace_folder(attempt, folder, Path(scratch) / "old")
            for reason in mismatches:
                report(f"{profile.name}: not taken from {reason}")
            report(f"{profile.name}: fetched from {describe(source)} into {folder}")
            return
    listed = "".join(f"\n  {reason}" for reason in reasons)
    raise ModelError(f"{profile.name} could not be fetched from any of its {len(reasons)} sources:{listed}")


def _deliver_and_verify(profile: FetchedProfile, source: Source, folder: Path, options: FetchOptions) -> None:
    """Fills `folder` with the files of the profile, verified."""
    if isinstance(profile, GeneratorProfile):
        deliver(source, list(profile.files), folder, options)
    else:
        _deliver_graph(profile, source, folder, options)
    wrong = folder_mismatch(profile, folder)
    if wrong is not None:
        raise DigestMismatchError(wrong)


def _deliver_graph(profile: ModelProfile, source: Source, folder: Path, options: FetchOptions) -> None:
    """Fills `folder` with the files of the profile; builds the graph where a source has only weights."""
    small_files = sorted((name for name in profile.files if name != GRAPH), key=lambda name: name != CONFIG)
    large_file = GRAPH if profile.checkpoint_sha256 is None else CHECKPOINT
    deliver(source, [*small_files, large_file], folder, options)
    checkpoint = folder / CHECKPOINT
    if profile.checkpoint_sha256 is not None and checkpoint.exists():
        wrong = file_mismatch(checkpoint, profile.checkpoint_sha256)
        wrong = wrong or file_mismatch(folder / CONFIG, profile.files[CONFIG])
        if wrong is not None:
            raise DigestMismatchError(wrong)
        # Imported here: a machine that fetches a built graph needs neither onnx nor safetensors.
        from deploy.models.bert_graph import build, head_of

        build(folder / CONFIG, checkpoint, folder / GRAPH, head_of(profile))
        checkpoint.unlink()


def _replace_folder(new: Path, folder: Path, old: Path) -> None:
    """Replaces `folder` by `new`; a reader sees all old files, all new files, or for an instant no folder."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _default_names(profiles: Mapping[str, FetchedProfile], report: Report) -> list[str]:
    """Returns the default models, in the precision of this machine, and reports it. Raises ModelError."""
    names = [name for name, profile in profiles.items() if profile.default]
    precisions = {of_service["fp32"]: of_service for of_service in MODELS.values()}
    if precisions.keys().isdisjoint(names):
        return names  # of another list
    choice = choose_precision(os.environ, read_cpuinfo())
    report(choice.sentence)
    return [precisions[name][choice.precision] if name in precisions else name for name in names]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns 0 when every requested model is there, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog=".venv/bin/python -m deploy.models.fetch", description="Fetch, verify and prepare models."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models of models.yaml (default: its default ones)")
    parser.add_argument(
        "--directory", type=Path, default=Path(".models"), help="folder of the models (default: .models)"
    )
    parser.add_argument("--models", type=Path, default=MODELS_FILE, help="the list of models")
    chosen = parser.parse_args(arguments)

    def report(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    options = FetchOptions(
        root=ROOT, hub=os.environ.get("HF_ENDPOINT") or HUB, maven=os.environ.get("MAVEN_REPOSITORY") or MAVEN
    )
    failed = False
    try:
        profiles = load_profiles(chosen.models)
        names = chosen.names or _default_names(profiles, report)
        unknown = [name for name in names if name not in profiles]
        if unknown:
            raise ModelError(f"{chosen.models} lists no model {', '.join(unknown)}; it has {', '.join(profiles)}.")
    except ModelError as error:
        report(str(error))
        return 1
    for name in names:
        try:
            fetch(profiles[name], chosen.directory, options, report)
        except ModelError as error:
            report(str(error))
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    end_command("deploy.models.fetch", main)
