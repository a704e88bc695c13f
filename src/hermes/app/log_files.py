"""Logging of a process with the standard library, and log files that several processes share.

`agent.log` has all records of the chosen level, `errors.log` warnings and errors, `gateway.log` the
records of the gateway. Records of libraries are written from WARNING on.

A line is text, `2026-11-15 03:17:22.123+01:00 INFO [session] hermes.agent.loop: message`, with
further lines of a message indented; or a JSON object. `ops.logs` reads both.
"""

import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from weakref import WeakSet

import msgspec

from hermes.config.home import Home, current_home
from hermes.config.settings import LoggingSettings
from hermes.security import Redactor
from hermes.util.concurrency import current_session
from hermes.util.text import clean, escape_controls

COMPONENTS = ("gateway", "agent", "tools", "cli", "cron")
NO_SESSION = "-"
OURS = ("hermes", "hermes_plugins")  #: The loggers that have the level of the settings.

_NOT_OPEN = -1
_COMPONENT_OF = {
    **dict.fromkeys(("gateway", "platforms"), "gateway"),
    "cron": "cron",
    **dict.fromkeys(("cli", "tui", "web", "acp", "mcp_server"), "cli"),
    **dict.fromkeys(
        ("tools", "terminal", "terminals", "mcp", "skills", "memory", "plugins"), "tools"
    ),
}


class LogFileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of a log file."""

    time: str  #: ISO 8601 with offset; empty if the line that was read has none.
    level: str
    logger: str
    message: str
    component: str = ""
    session: str = ""


def component_of(logger: str) -> str:
    """Return the component of a logger."""
    package, _, rest = logger.partition(".")
    rest = rest.removeprefix("sdk.")
    return _COMPONENT_OF.get(rest.partition(".")[0], "agent") if package in OURS else "agent"


def as_text(entry: LogFileEntry) -> str:
    message = entry.message.replace("\n", "\n    ")
    session = entry.session or NO_SESSION
    return f"{entry.time} {entry.level} [{session}] {entry.logger}: {message}"


def as_json(entry: LogFileEntry) -> str:
    return msgspec.json.encode(entry).decode()


class RedactingFormatter(logging.Formatter):
    """Formats the whole record, with message, traceback and stack, without secrets and without
    characters that would drive the terminal of a reader."""

    def __init__(self, redact: Callable[[str], str], form: Callable[[LogFileEntry], str]) -> None:
        super().__init__()
        self._redact, self._form = redact, form

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        try:
            texts = [record.getMessage()]
        except (TypeError, ValueError, KeyError):  # the arguments do not fit the message
            texts = [f"{record.msg} {record.args}"]
        if record.exc_info and record.exc_info[0] is not None:
            texts.append(self.formatException(record.exc_info))
        if record.stack_info:
            texts.append(self.formatStack(record.stack_info))
        return self._form(
            LogFileEntry(
                time=moment.isoformat(sep=" ", timespec="milliseconds"),
                level=record.levelname,
                logger=record.name,
                message=escape_controls(self._redact(clean("\n".join(texts)))),
                component=component_of(record.name),
                session=current_session(),
            )
        )


class LogFile(logging.Handler):
    """Appends each record with one write, so that processes do not mix their lines.

    At `max_bytes` the file is renamed to `name.1`, that one to `name.2` and so on, up to `backups`.
    A process whose file was renamed by another opens the new one. The first failure is reported on
    stderr; none reaches the code that logs.
    """

    def __init__(self, path: Path, *, max_bytes: int, backups: int) -> None:
        super().__init__()
        self.path, self._file = path, str(path)
        self._max_bytes, self._backups = max_bytes, backups
        self._has_reported = False
        self._descriptor = _NOT_OPEN

    def open(self) -> None:
        """Open the file before the first record. Raises `OSError`."""
        if self._descriptor == _NOT_OPEN:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(f"{self.format(record)}\n".encode())
        except Exception as error:  # noqa: BLE001 - logging must never break the code that logs
            if not self._has_reported:  # `handleError` would print the record with its secrets
                self._has_reported = True
                report_write_error(self.path, error)

    def close(self) -> None:
        self.acquire()
        try:
            self._close_file()
        finally:
            self.release()
        super().close()

    def _write(self, line: bytes) -> None:
        self.open()
        opened = os.fstat(self._descriptor)
        if not self._is_named(opened):
            self._reopen()
            opened = os.fstat(self._descriptor)
        if self._max_bytes and opened.st_size and opened.st_size + len(line) > self._max_bytes:
            self._rotate()
        os.write(self._descriptor, line)

    def _is_named(self, opened: os.stat_result) -> bool:
        """Return whether the open file still has its name."""
        try:
            there = os.stat(self._file)  # noqa: PTH116 - faster, and done for each line
        except FileNotFoundError:
            return False
        return os.path.samestat(there, opened)

    def _reopen(self) -> None:
        self._close_file()
        self.open()

    def _close_file(self) -> None:
        if self._descriptor != _NOT_OPEN:
            os.close(self._descriptor)
            self._descriptor = _NOT_OPEN

    def _rotate(self) -> None:
        # The lock is on the old file, which every process that wants to rotate has open.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        if self._is_named(os.fstat(self._descriptor)):
            for number in range(self._backups, 0, -1):
                older = rotated(self.path, number - 1)
                if older.exists():
                    older.replace(rotated(self.path, number))
            if not self._backups:
                self.path.unlink()
        self._reopen()


def rotated(path: Path, number: int) -> Path:
    """Return the path of a rotated file: `agent.log`, `agent.log.1`, …"""
    return path.with_name(f"{path.name}.{number}") if number else path


def report_write_error(path: Path, error: Exception) -> None:
    reason = error.strerror if isinstance(error, OSError) else type(error).__name__
    _report(f"cannot write the log {path}: {reason}")


def _report(text: str) -> None:
    # stderr may be closed or full as well; then there is no place left for the message.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"hermes: {text}\n")


AGENT, ERRORS, GATEWAY = "agent.log", "errors.log", "gateway.log"
FILES = (AGENT, ERRORS, GATEWAY)


class SilentHandler(logging.NullHandler):
    """Replaces files that cannot be written; without it, records would go to stderr."""


_handle = logging.Handler.handle
_failed_handlers: WeakSet[logging.Handler] = WeakSet()


def _handle_safely(handler: logging.Handler, record: logging.LogRecord) -> bool:
    """Replaces `logging.Handler.handle`, so that the handler of a plugin or a library which raises
    does not fail the code that logs. The first failure of each is reported on stderr."""
    try:
        return bool(_handle(handler, record))
    except Exception as error:  # noqa: BLE001 - logging must never break the code that logs
        if handler not in _failed_handlers:
            _failed_handlers.add(handler)
            kind = type(handler)  # not the message of the error, which may contain a secret
            name = f"{kind.__module__}.{kind.__qualname__}"
            _report(f"the log handler {name} failed: {type(error).__name__}")
        return False


def start_logging(home: Home, settings: LoggingSettings, redactor: Redactor) -> None:
    """Write all records of this process to the files of `home`, and no longer to earlier ones.

    Never raises: a file that cannot be written is reported on stderr.
    """
    stop_logging()
    level = logging.getLevelNamesMapping()[settings.level]
    formatter = RedactingFormatter(redactor.redact, as_json if settings.json else as_text)
    everything, errors, gateway = (
        LogFile(home.logs / name, max_bytes=settings.max_bytes, backups=settings.backups)
        for name in FILES
    )
    errors.setLevel(logging.WARNING)
    gateway.addFilter(lambda record: component_of(record.name) == "gateway")
    handlers: list[logging.Handler] = [everything, errors, gateway]
    try:
        home.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        everything.open()
    except OSError as error:
        report_write_error(everything.path, error)
        handlers = [SilentHandler()]
    root = logging.getLogger()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    for name in OURS:
        logging.getLogger(name).setLevel(level)
    # Loggers have no place for this: a record goes to handlers of all loggers above its own.
    logging.Handler.handle = _handle_safely  # type: ignore[method-assign, assignment]


def is_logging() -> bool:
    """Return whether `start_logging` was called."""
    return bool(_own_handlers())


def stop_logging() -> None:
    """Close the files that `start_logging` opened."""
    root = logging.getLogger()
    for handler in _own_handlers():
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.WARNING)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.Handler.handle = _handle  # type: ignore[method-assign]


def _own_handlers() -> list[logging.Handler]:
    return [h for h in logging.getLogger().handlers if isinstance(h, LogFile | SilentHandler)]


logger = logging.getLogger(__name__)


def record_crash(error: BaseException) -> str:
    """Write the traceback to the error log and return the path of that file."""
    home = current_home()
    if not is_logging():
        start_logging(home, LoggingSettings(), Redactor(()))
    logger.critical("internal error", exc_info=error)
    return str(home.logs / ERRORS)
