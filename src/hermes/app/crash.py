"""Keeping the details of a bug, so that the user sees one line and we see the rest."""

import logging

from hermes.app.logs import ERRORS, is_logging, start_logging
from hermes.config.home import current_home
from hermes.config.settings.agent import LoggingSettings
from hermes.security import Redactor

logger = logging.getLogger(__name__)


def record(error: BaseException) -> str:
    """Write the traceback to the error log; the result is the path of that file."""
    home = current_home()
    if not is_logging():
        start_logging(home, LoggingSettings(), Redactor(()))
    logger.critical("internal error", exc_info=error)
    return str(home.logs / ERRORS)
