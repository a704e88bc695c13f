"""What can be read of a jobs.json that was broken by hand: a comma too many, a missing quote."""

import json
import re
from typing import Any

_DECODER = json.JSONDecoder()
_OF_A_JOB = re.compile(r'"(id|prompt|schedule)"')
MOST = 2_000_000
"""Characters. Whoever wrote more did not do so by hand."""


def salvaged(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of jobs that are whole, and the parts between them in which a job is broken."""
    found: list[dict[str, Any]] = []
    between: list[str] = []
    begin = place = 0
    while len(text) <= MOST and (place := text.find("{", place)) >= 0:
        record, end = _object(text, place)
        if not _is_job(record):
            place += 1  # broken, or a part of something that is
            continue
        found.append(record)
        between.append(text[begin:place])
        begin = place = end
    between.append(text[begin:])
    return found, [part.strip(" \t\r\n,") for part in between if _OF_A_JOB.search(part)]


def _object(text: str, place: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place


def _is_job(record: Any) -> bool:
    return isinstance(record, dict) and bool(record.get("id")) and "schedule" in record
