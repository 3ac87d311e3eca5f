"""Downloads one large file over HTTP, with progress, going on where an earlier try stopped. Verifies no content."""

import re
from pathlib import Path

import httpx

from evaluator.errors import EvaluationError
from evaluator.progress import progress, say

ATTEMPTS = 5
CONNECT_SECONDS, READ_SECONDS = 5.0, 30.0
KILOBYTE = 1000
# Several times the expected size is a server that sends something else, perhaps without end.
MOST_TIMES_EXPECTED = 2


class DownloadError(EvaluationError):
    """The file was not delivered; the message is a clause. What has arrived stays for the next try."""


def download(url: str, target: Path, *, expected_bytes: int, label: str) -> None:
    """Appends to `target` what it lacks of the file at `url`, in up to five attempts.

    Servers without byte ranges send the file from its beginning again. `expected_bytes` (about) bounds the size and
    is the scale of the progress bar where the server states no length. Raises DownloadError.
    """
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                _receive(client, url, target, expected_bytes, label)
                return
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise DownloadError(f"{url} cannot be reached: {error or type(error).__name__}") from error
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                if attempt == ATTEMPTS:
                    raise DownloadError(f"{url} broke off {ATTEMPTS} times: {reason}") from error
                say(f"{label}: {reason} - attempt {attempt} of {ATTEMPTS}")
            except OSError as error:
                raise DownloadError(f"{target} cannot be written: {error.strerror}") from error


def _receive(client: httpx.Client, url: str, target: Path, expected_bytes: int, label: str) -> None:
    have = _size(target)
    # A range is one of the bytes that are stored: without this header the server might compress them.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            target.unlink()
            raise httpx.ReadError(f"the {have} bytes of an earlier try are no part of this file")
        if answer.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise DownloadError(f"{url} answered {answer.status_code}")
        start = _first_byte(answer)
        if start not in (0, have):
            raise DownloadError(f"{url} was asked for byte {have} and sends byte {start}")
        if start:
            say(f"{label}: going on at byte {start}")
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else expected_bytes
        _expect_size(url, total, expected_bytes)
        with progress(label, total // KILOBYTE, "kB") as advance, target.open("ab" if start else "wb") as file:
            advance(start // KILOBYTE)
            done = start
            # Without a chunk size: httpx would drop a chunk that is not full when the connection breaks.
            for chunk in answer.iter_raw():
                _expect_size(url, done + len(chunk), expected_bytes)
                file.write(chunk)
                advance((done + len(chunk)) // KILOBYTE - done // KILOBYTE)
                done += len(chunk)


def _first_byte(answer: httpx.Response) -> int:
    if answer.status_code == httpx.codes.OK:
        return 0
    found = re.match(r"bytes (\d{1,15})-", answer.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _expect_size(url: str, size: int, expected_bytes: int) -> None:
    if size > MOST_TIMES_EXPECTED * expected_bytes:
        raise DownloadError(f"{url} sends more than {MOST_TIMES_EXPECTED} times the {expected_bytes} bytes expected")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
