"""Logging to stderr, as text or as JSON lines; never a secret, since messages never carry one."""

from __future__ import annotations

import logging
import sys
import time

from volmgr import plain_json

_EXTRAS = ("pod", "pod_uid", "volume")


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line of a record."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name in _EXTRAS if (value := getattr(record, name, ""))})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return plain_json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Level, what happened, and which Pod and volume it concerns."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's
        """Give the line of a record, as text alone: a volume's handle, or a file's name, may be anything."""
        text = super().formatMessage(record)
        about = " ".join(f"{name}={value}" for name in ("pod", "volume") if (value := getattr(record, name, "")))
        return "".join(map(_shown, f"{text} [{about}]" if about else text))


def _shown(char: str) -> str:
    """Give a character so that it moves no cursor, and begins no line that looks like another record."""
    if char == "\n":
        return "\n    "
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def configure(style: str, level: int = logging.INFO) -> None:
    """Log to stderr in this style (`text` or `json`)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("stevedore").setLevel(logging.WARNING)
