"""What a file passes before the model sees it: the scan, the redaction, the cut."""

import logging
from collections.abc import Callable

from hermes.security.injection import blocked, scan

log = logging.getLogger(__name__)

CONTEXT_FILE_MAX_CHARS = 20_000
HEAD, TAIL = 70, 20
"""Hundredths of the limit that are kept of a longer file. The marker takes part of the rest."""
LONGEST_NAME = 200

Redact = Callable[[str], str]


def vetted(
    name: str, text: str, redact: Redact = str, *, limit: int = CONTEXT_FILE_MAX_CHARS
) -> str:
    """`text` as it may stand in a prompt: whole, cut, or replaced by a line that says why not."""
    text = text.removeprefix("\ufeff").strip()
    findings = scan(text) if text else ()
    if findings:
        log.warning("%s is not loaded: prompt injection? (%s)", name, ", ".join(findings))
        return blocked(name, findings)
    # Before the cut: half a key would not be recognised.
    return cut(name, redact(text), limit)


def cut(name: str, text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * HEAD // 100, limit * TAIL // 100
    marker = (
        f"[... {name} is cut: the first {head:,} and the last {tail:,} of {len(text):,} characters"
        " are shown. Read the rest with the file tools. ...]"
    )
    return f"{text[:head]}\n\n{marker}\n\n{text[-tail:]}"


def presentable(name: str) -> bool:
    """Whether the name of a file may stand in a prompt: it is text of the project as well."""
    if name.isprintable() and len(name) <= LONGEST_NAME and not scan(name):
        return True
    log.warning("%r is not loaded because of its name", name)
    return False
