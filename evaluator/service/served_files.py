"""Decides which files the service reads for a caller, and shortens paths in messages that leave over HTTP.

Callers may name datasets beneath the folders of EVALUATOR_DATASETS. A path elsewhere is refused by its text alone and
with the words for one that does not exist, so no answer shows whether it does. The command line takes any path.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from evaluator.datasets.catalogue import LocatedSet, holds_set, load_catalogue
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from services.contracts.base import SURROGATES

MOST_SHOWN = 80  # characters of what was sent, in a refusal
# An absolute path up to its last part. Routes of the gateway (/v1/…) and addresses (http://…) are none.
_ABOVE = re.compile(r"""(?<![\w./:~)\]-])/(?!v\d+/)(?:[^\s/'"`,;:()<>]+/)+""")
_ENDS = r"""(?=[\s'"`,;:()<>]|$)"""


class ServedDatasets:
    """The folders beneath which callers may name files. Relative ones are below the working directory."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)

    def located(self, given: str) -> tuple[LocatedSet, ...]:
        """Returns the collections that a path, or a name in one of the folders, means; several for a set of parts.

        Raises EvaluationError, the same for everything that is no folder there.
        """
        catalogue = load_catalogue()
        if given not in catalogue.sets:
            return (LocatedSet(self._dataset(given, given), None),)
        return tuple(LocatedSet(self._dataset(part.name, given), part) for part in catalogue.parts(given))

    def placed(self, experiment: Experiment) -> Experiment:
        """Returns the experiment with the path of its dataset, beneath the folders.

        A set of the catalogue has its own split unless the experiment names one. Raises EvaluationError as `located`,
        and for a set of several parts.
        """
        dataset, *others = self.located(experiment.dataset)
        if others:
            raise EvaluationError(
                f"dataset: {experiment.dataset} has several datasets, which the service does not run; name one of "
                f"them: {', '.join(collection.known.name for collection in (dataset, *others) if collection.known)}"
            )
        changes: dict[str, object] = {"dataset": str(dataset.directory)}
        if dataset.known is not None and "split" not in experiment.model_fields_set:
            changes["split"] = dataset.known.split
        return experiment.model_copy(update=changes)

    def names(self) -> list[str]:
        """Returns the names of the datasets that are there: sets of the catalogue first, then the folders' own."""
        catalogued = [name for name in load_catalogue().sets if any(map(_is_set, self._named(name)))]
        inside = [path for folder in self._folders if folder.is_dir() for path in sorted(folder.iterdir())]
        own = [path.name for path in (*self._folders, *inside) if self._is_closed(path) and _is_set(path)]
        return list(dict.fromkeys(catalogued + own))

    def _dataset(self, name: str, given: str) -> Path:
        closed = list(self._named(name))
        if not closed:
            raise _refusal(given)
        return next(filter(_is_set, closed), closed[0])

    def _named(self, given: str) -> Iterator[Path]:
        """Yields the closed folders beneath ours that a path, or a name, means."""
        if not given.strip() or "\0" in given or SURROGATES.search(given):
            return
        path, ups = Path(os.path.normpath(given)), Path(given).parts.count("..")
        # Behind a name, `..` would be another folder for the system than for the text where the name is a link's.
        if Path(given).parts[:ups].count("..") < ups:
            return
        named = [folder if folder.name == given else folder / path for folder in self._folders] if not ups else []
        for place in (path, *named):
            try:
                if self._is_closed(place):
                    yield place
            except OSError:  # a name that is too long, no permission
                continue

    def _is_beneath(self, place: Path) -> bool:
        """Returns whether a path lies in one of the folders, as it is written and with its links followed.

        First as it is written: of a path elsewhere, no part is looked up.
        """
        written = Path(os.path.abspath(place))
        spelled = [path for folder in self._folders for path in (Path(os.path.abspath(folder)), folder.resolve())]
        if not any(written.is_relative_to(folder) for folder in spelled):
            return False
        try:
            real = written.resolve()
        except RuntimeError:  # links in a circle
            return False
        return any(real.is_relative_to(folder.resolve()) for folder in self._folders)

    def _is_closed(self, directory: Path) -> bool:
        """Returns whether a path is a folder beneath ours without links that lead out, itself and its `qrels`."""
        if not self._is_beneath(directory) or not directory.is_dir():
            return False
        files = chain(directory.iterdir(), (directory / "qrels").glob("*"))
        return all(self._is_beneath(file) for file in files if file.is_symlink())


class MessagePaths:
    """Shortens paths in messages: one in a folder of the service is shown from there on, of others the last part."""

    def __init__(self, folders: Iterable[Path]) -> None:
        spelled = {path for folder in folders for path in (os.path.abspath(folder), str(folder.resolve()))} - {os.sep}
        known = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
        self._known = re.compile(rf"(?<![\w./~-])(?:{known})(?:/|{_ENDS})") if known else None

    def shortened(self, message: object) -> str:
        """Returns the text of an error or a message without the folders above its paths."""
        text = str(message)
        if self._known is not None:
            text = self._known.sub(lambda match: "" if match[0].endswith("/") else Path(match[0]).name, text)
        return _ABOVE.sub("", text)


def _is_set(directory: Path) -> bool:
    try:
        return holds_set(directory)
    except OSError:  # no permission
        return False


def _refusal(given: str) -> EvaluationError:
    return EvaluationError(
        f"dataset: {given[:MOST_SHOWN]!r} is not served: name a folder beneath one of those in EVALUATOR_DATASETS, by "
        "its path or by its name there; links that lead out of them are not followed"
    )
