"""Reads which files of added judgments belong to which set (BEIR paper, table 4)."""

from collections.abc import Sequence
from pathlib import Path

from evaluator.errors import WrongOption


def judgment_files(words: Sequence[str], sets: Sequence[str]) -> dict[str, list[Path]]:
    """Returns the files by set, in their order: `SET=FILE`, or FILE where there is one set. Raises WrongOption."""
    files: dict[str, list[Path]] = {}
    for word in words:
        name, given, path = word.partition("=")
        if not given or Path(word).exists():
            if len(sets) != 1:
                raise WrongOption(
                    f"--judgments {word}: query ids of two sets may be the same; say of which set it is: "
                    f"{sets[0]}={word} (there are {', '.join(sets)})"
                )
            name, path = sets[0], word
        if name not in sets:
            raise WrongOption(f"--judgments {word}: no set {name!r} in these runs; there are {', '.join(sets)}")
        files.setdefault(name, []).append(Path(path))
    return files
