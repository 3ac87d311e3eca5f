"""Writes logs as JSON, one object a line, each with the id of its request."""

import logging
import sys
from datetime import UTC, datetime

import orjson

from services.chassis.requests.telemetry import request_id

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats `time, level, service, logger, message, request_id`, the `extra` fields, and `error` with its trace."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def configure_logs(service: str, level: str) -> None:
    """Sends all logs to standard output as JSON; those of HTTP clients only from warnings up."""
    # What no line of ours holds, and every record would look up (docs.python.org/3/howto/logging.html, "Optimization").
    logging._srcfile = None  # a documented switch, whatever its name
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
