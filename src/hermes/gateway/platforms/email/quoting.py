"""The new part of a mail, without what it quotes and without the signature."""

import re

_HEAD_FIRST = re.compile(r"\*?(From|Von|De|Da|Van|Från|Fra|Od|От)\s?:\*?\s+\S.*")
_HEAD_NEXT = re.compile(
    r"\*?(Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Fecha|Para|Asunto"
    r"|Data|Inviato|A|Oggetto|Verzonden|Aan|Onderwerp|Cc)\s?:.*"
)
_RULE = re.compile(r"[-_]{3,}\s*\w[^-_]*[-_]{3,}|_{10,}")
_ATTRIBUTION = re.compile(r".*[0-9@].*:\s*", re.DOTALL)
_DEVICE = re.compile(
    r"(Sent from my|Get Outlook for|Von meinem .+ gesendet|Gesendet von|Envoyé de mon|Enviado desde"
    r"|Inviato da)\b.{0,60}"
)
_FORWARDED = re.compile(r"\s*(fwd?|wg|tr|rv|i|enc)\s*:", re.IGNORECASE)
LONGEST_ATTRIBUTION = 3
LONGEST_LINE = 500
"""Of lines that are looked at: patterns need long for lines that nobody types."""


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= LONGEST_LINE and pattern.fullmatch(text) is not None


def is_forwarded(subject: str) -> bool:
    """Then what it quotes is what it is about."""
    return bool(_FORWARDED.match(subject))


def split(text: str) -> tuple[str, str]:
    """What is new, and what is quoted. A mail that says nothing new is new as a whole."""
    lines = text.split("\n")
    lines, below = _without_outlook(lines)
    lines, quoted = _without_trailing(lines)
    lines, above = _without_leading(lines)
    new = "\n".join(_without_signature(lines)).strip("\n")
    if not new.strip():
        return text.strip("\n"), ""
    return new, _bare([*above, *quoted, *below])


def _without_outlook(lines: list[str]) -> tuple[list[str], list[str]]:
    """Some programs put the heads of the answered mail above it and mark nothing."""
    for place, line in enumerate(lines[:-1]):
        heads = lines[place + 1 : place + 6]
        if _fits(_HEAD_FIRST, line.strip()) and any(
            _fits(_HEAD_NEXT, each.strip()) for each in heads
        ):
            start = place
            while start and (
                not lines[start - 1].strip() or _fits(_RULE, lines[start - 1].strip())
            ):
                start -= 1
            return lines[:start], lines[place + 1 :]
    return lines, []


def _without_trailing(lines: list[str]) -> tuple[list[str], list[str]]:
    """Quoted lines at the end, when a line above them says whose words they are."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or _quoted(lines[end - 1])):
        end -= 1
    quoted = [line for line in lines[end:] if _quoted(line)]
    start = _attribution(lines, end)
    return (lines[:start], quoted) if quoted and start < end else (lines, [])


def _without_leading(lines: list[str]) -> tuple[list[str], list[str]]:
    """The same at the beginning, where some write below what they answer."""
    place = 0
    while place < len(lines) and not _quoted(lines[place]):
        place += 1
    end = place
    while end < len(lines) and (not lines[end].strip() or _quoted(lines[end])):
        end += 1
    above = [line for line in lines[:place] if line.strip()]
    if (
        not above
        or len(above) > LONGEST_ATTRIBUTION
        or not any(line.strip() for line in lines[end:])
    ):
        return lines, []
    if not _fits(_ATTRIBUTION, "\n".join(above)):
        return lines, []
    return lines[end:], [line for line in lines[place:end] if _quoted(line)]


def _attribution(lines: list[str], end: int) -> int:
    """Where the line `On …, somebody wrote:` before `end` begins; `end` when there is none."""
    last = end
    while last and not lines[last - 1].strip():
        last -= 1
    if not last or not lines[last - 1].rstrip().endswith(":"):
        return end
    for count in range(1, LONGEST_ATTRIBUTION + 1):
        part = lines[max(0, last - count) : last]
        if not all(line.strip() for line in part):
            return end
        if _fits(_ATTRIBUTION, "\n".join(part)) and re.search(r"\d", "".join(part)):
            return last - len(part)
    return end


def _without_signature(lines: list[str]) -> list[str]:
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].rstrip("\r") in ("-- ", "--"):
            lines = lines[:place]
            break
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines[:-1] if lines and _fits(_DEVICE, lines[-1].strip()) else lines


def _quoted(line: str) -> bool:
    return line.startswith(">")


def _bare(lines: list[str]) -> str:
    return "\n".join(
        line[1:].removeprefix(" ") if _quoted(line) else line for line in lines
    ).strip()
