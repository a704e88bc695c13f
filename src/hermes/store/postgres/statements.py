"""From the `?` marks of the common statements to those of psycopg."""

import re
from functools import lru_cache

_PIECES = re.compile(
    r"""
      '(?:[^']|'')*'      # text
    | "(?:[^"]|"")*"      # a quoted name
    | --[^\n]*            # comments
    | /\*.*?\*/
    | [?%]
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def translated(statement: str) -> bytes:
    """`statement` for psycopg: `?` becomes `%s`, except inside quotes and comments, and `%` is
    doubled everywhere."""
    return _PIECES.sub(_piece, statement).encode()


def _piece(found: re.Match[str]) -> str:
    piece = found.group()
    return "%s" if piece == "?" else piece.replace("%", "%%")
