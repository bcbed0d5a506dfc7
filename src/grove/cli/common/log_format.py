"""Configure the log format: JSON for machines or text for people, on stderr."""

import logging
import sys

import msgspec
import structlog

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}


def log_to_stderr(*, level: str, is_json: bool) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            *(_as_json() if is_json else _as_text()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        # Looked up for every line, because tests and live displays may replace it.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _as_json() -> list[structlog.typing.Processor]:
    return [_in_order, structlog.processors.JSONRenderer(serializer=_encode)]


def _as_text() -> list[structlog.typing.Processor]:
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="time")]


def _in_order(_logger: object, _method: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Put the common fields first, under the names that log collectors expect."""
    return {"time": line.pop("time"), "level": line.pop("level"), "msg": line.pop("event"), **line}


def _encode(line: object, **_: object) -> str:
    return msgspec.json.encode(line, enc_hook=str).decode()
