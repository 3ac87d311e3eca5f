"""Serves one file over real HTTP, with byte ranges, and with the faults of servers that break off or misbehave."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ServedFile:
    """What the server sends, and what it was asked for."""

    content: bytes
    ranges: bool = True
    breaks_off_after: list[int] = field(default_factory=list)  # bytes of the body, an entry for each answer
    starts_at: int | None = None  # of every range, whatever was asked
    endless: bool = False
    asked_ranges: list[str | None] = field(default_factory=list)
    url: str = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    served: ServedFile

    def do_GET(self) -> None:
        served, asked = self.served, self.headers.get("Range")
        served.asked_ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and served.ranges else 0
        if start and start >= len(served.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(served.content)}")
            self.end_headers()
            return
        start = served.starts_at if start and served.starts_at is not None else start
        self.send_response(206 if start else 200)
        body = served.content[start:]
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(served.content) - 1}/{len(served.content)}")
        if not served.endless:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # the client has left
            self.wfile.write(body[: served.breaks_off_after.pop(0)] if served.breaks_off_after else body)
            while served.endless:
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output free of the server's log."""


@contextmanager
def serving_file(content: bytes) -> Iterator[ServedFile]:
    """Yields the served file; its `url` is the server's address."""
    served = ServedFile(content)
    handler = type("_BoundHandler", (_Handler,), {"served": served})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    # `shutdown` waits for the end of an interval, which is half a second unless said otherwise.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
