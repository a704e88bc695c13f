"""Names of sessions: sortable by time, unique without asking anyone."""

import secrets
from datetime import datetime


def new_session_id(now: datetime) -> str:
    """`YYYYMMDD_HHMMSS_<8 hex>` for the moment `now`, in the time zone it carries."""
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"
