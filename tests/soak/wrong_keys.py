"""Sends wrong keys at a steady rate: `python -m tests.soak.wrong_keys PORT RATE SECONDS WAY`; prints how many.

Many threads send one request at a time each, at times of their own. A load generator with one event loop would need a
core for a thousand connections a second, and would send in bursts what it has no time for at once: the burst would be
measured, not the rate.
"""

import json
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

SENDERS = 256
WRONG = "rsk_0123456789ab_" + "0" * 48
# What a sender does with its connection, and the header that says so.
WAYS: Mapping[str, str] = {"kept": "keep-alive", "new": "close"}
TIMEOUT_S = 10.0


class Sender:
    """One thread with a connection of its own. `answers` counts statuses; 0 is a request without an answer."""

    def __init__(self, port: int, way: str) -> None:
        self.answers: Counter[int] = Counter()
        self._port = port
        self._keeps = way == "kept"
        self._request = request(WAYS[way])
        self._connection: socket.socket | None = None

    def run(self, first_s: float, every_s: float, ends_s: float) -> None:
        """Sends each `every_s` seconds from `first_s` on, both of the monotonic clock. Drops what is overdue."""
        planned = first_s
        while planned < ends_s:
            time.sleep(max(0.0, planned - time.monotonic()))
            self.answers[self._send()] += 1
            planned += every_s * max(1, -(-(time.monotonic() - planned) // every_s))

    def _send(self) -> int:
        with suppress(OSError):
            opened = self._connection or socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
            self._connection = opened
            opened.sendall(self._request)
            status = _status(opened, to_end=not self._keeps)
            if self._keeps and status:
                return status
            self._leave()
            return status
        self._leave()
        return 0

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def request(connection: str) -> bytes:
    """Returns a search with a wrong key, and the header Connection."""
    content = json.dumps({"query": "warm light for loose tea", "pipeline": "bm25", "top": 10}).encode()
    lines = [
        "POST /v1/collections/demo/search HTTP/1.1",
        "host: 127.0.0.1",
        f"authorization: Bearer {WRONG}",
        "content-type: application/json",
        f"content-length: {len(content)}",
        f"connection: {connection}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


def _status(opened: socket.socket, *, to_end: bool) -> int:
    """Reads an answer, which comes in one piece, and on to the end of the connection where that is to come."""
    answer = opened.recv(65_536)
    while to_end and opened.recv(65_536):
        pass
    return int(answer[9:12]) if answer else 0


def sent(port: int, rate: float, seconds: float, way: str) -> Counter[int]:
    """Sends, and returns the statuses of the answers."""
    threading.stack_size(262_144)
    began = time.monotonic() + 0.1
    senders = [Sender(port, way) for _ in range(SENDERS)]
    threads = [
        threading.Thread(target=sender.run, args=(began + number / rate, SENDERS / rate, began + seconds))
        for number, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum((sender.answers for sender in senders), Counter())


if __name__ == "__main__":
    counts = sent(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
    print(json.dumps({str(status): number for status, number in counts.items()}))
