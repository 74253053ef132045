"""Log set-up for entrypoints: text for people, JSON lines with `LOG_FORMAT=json`. Libraries only use getLogger."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from trainyard.contract import env
from trainyard.contract.errors import ConfigError
from trainyard.contract.termination import scrub, secrets_of


class _Scrubbing(logging.Formatter):
    """Formats a record and takes secrets out of it."""

    def __init__(self, secrets: tuple[str, ...], rank: str | None) -> None:
        super().__init__()
        self._secrets = secrets
        self._rank = rank

    def _time(self, record: logging.LogRecord) -> str:
        return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _message(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return scrub(text, self._secrets)


class _Text(_Scrubbing):
    def format(self, record: logging.LogRecord) -> str:
        rank = f" rank={self._rank}" if self._rank else ""
        return f"{self._time(record)} {record.levelname}{rank} {self._message(record)}"


class _Json(_Scrubbing):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self._time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self._message(record),
        }
        if self._rank:
            fields["rank"] = self._rank
        return json.dumps(fields, ensure_ascii=False)


def configure(environ: Mapping[str, str]) -> None:
    """Send logs to standard error in the format and level that the environment asks for.

    Raises ConfigError for an unknown format or level.
    """
    style = environ.get(env.LOG_FORMAT) or "text"
    level = (environ.get(env.LOG_LEVEL) or "INFO").upper()
    if style not in ("text", "json"):
        raise ConfigError(f"{env.LOG_FORMAT}: expected text or json, got {style!r}")
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ConfigError(f"{env.LOG_LEVEL}: expected DEBUG, INFO, WARNING or ERROR, got {level!r}")
    rank = environ.get("RANK") if environ.get("WORLD_SIZE", "1") != "1" else None
    formatter = (_Json if style == "json" else _Text)(secrets_of(environ), rank)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
