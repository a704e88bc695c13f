"""Logging for a process of Hermes, by the standard library: who logs needs nothing of this.

`agent.log` has everything of the chosen level, `errors.log` warnings and worse, `gateway.log` what
the gateway logs. Libraries are heard from WARNING on.
"""

import logging

from hermes.app.log_files import (
    LogFile,
    RedactingFormatter,
    as_json,
    as_text,
    complain,
)
from hermes.config.home import Home
from hermes.config.settings.agent import LoggingSettings
from hermes.security import Redactor

AGENT, ERRORS, GATEWAY = "agent.log", "errors.log", "gateway.log"
FILES = (AGENT, ERRORS, GATEWAY)
OURS = "hermes"


class Silent(logging.NullHandler):
    """In place of files that cannot be written, so that records do not end up on stderr."""


def start_logging(home: Home, settings: LoggingSettings, redactor: Redactor) -> None:
    """Send all logging of this process to the files of `home`; called again, to those of the new.

    Never raises: where the files cannot be written one line on stderr says so.
    """
    stop_logging()
    level = logging.getLevelNamesMapping()[settings.level]
    formatter = RedactingFormatter(redactor.redact, as_json if settings.json else as_text)
    root = logging.getLogger()
    for handler in _handlers(home, settings):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger(OURS).setLevel(level)


def is_logging() -> bool:
    """Whether `start_logging` was called."""
    return bool(_own_handlers())


def stop_logging() -> None:
    """Close the files that `start_logging` opened."""
    root = logging.getLogger()
    for handler in _own_handlers():
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.WARNING)
    logging.getLogger(OURS).setLevel(logging.NOTSET)


def _own_handlers() -> list[logging.Handler]:
    return [h for h in logging.getLogger().handlers if isinstance(h, LogFile | Silent)]


def _handlers(home: Home, settings: LoggingSettings) -> list[logging.Handler]:
    everything, errors, gateway = (
        LogFile(home.logs / name, max_bytes=settings.max_bytes, backups=settings.backups)
        for name in FILES
    )
    try:
        home.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        everything.open()
    except OSError as error:
        complain(everything.path, error)
        return [Silent()]
    errors.setLevel(logging.WARNING)
    gateway.addFilter(logging.Filter(f"{OURS}.gateway"))
    return [everything, errors, gateway]
