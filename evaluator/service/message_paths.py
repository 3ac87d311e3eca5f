"""Shortens the paths in messages that leave the machine over HTTP: no folder above those of the service is named."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

# An absolute path up to its last part. Routes of the gateway (/v1/…) and addresses (http://…) are none.
_ABOVE = re.compile(r"""(?<![\w./:~)\]-])/(?!v\d+/)(?:[^\s/'"`,;:()<>]+/)+""")
_ENDS = r"""(?=[\s'"`,;:()<>]|$)"""


class MessagePaths:
    """Knows the folders of a service. A path in one of them is shown from there on, of others the last part."""

    def __init__(self, folders: Iterable[Path]) -> None:
        spelled = {one for folder in folders for one in (os.path.abspath(folder), str(folder.resolve()))} - {os.sep}
        known = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
        self._known = re.compile(rf"(?<![\w./~-])(?:{known})(?:/|{_ENDS})") if known else None

    def shortened(self, message: object) -> str:
        """Returns the text of an error or a message without the folders above its paths."""
        text = str(message)
        if self._known is not None:
            text = self._known.sub(lambda found: "" if found[0].endswith("/") else Path(found[0]).name, text)
        return _ABOVE.sub("", text)
