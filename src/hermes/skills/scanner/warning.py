"""Whether a text speaks against what it shows: a warning, an example of an attack, a bad habit."""

import re

_AGAINST = re.compile(
    r"\b(?:never|do\s+not|don['’]?t|must\s+not|mustn['’]?t|should\s+not|shouldn['’]?t|avoid|"
    r"refuse\s+to|rather\s+than|instead\s+of)\s+(?:\w+\s+){0,2}?"
    r"(?:run|execut\w+|us(?:e|ing)|past\w+|do|typ\w+|copy\w*|allow\w*|writ\w+|commit\w*|suggest\w*|"
    r"install\w*|pip\w+|follow\w*|obey\w*|act\w*|call\w*|accept\w*|add\w*|ask\w*|turn\w*|set\w*|"
    r"disabl\w+|put\w*|store|send\w*|show\w*|print\w*|includ\w+|read\w*)\b",
    re.IGNORECASE,
)
_UNLESS = re.compile(
    r"\b(?:without|unless|until|except|skip|forget|fail)\b|\bbefore\s+running", re.IGNORECASE
)
"""`Never run this without sudo` orders to run it."""
_EVIL = (
    r"(?:attacks?|attackers?|malicious|malware|exploits?|backdoors?|jailbreaks?|injections?|"
    r"intruders?|break-ins?|dangerous|destructive|harmful|suspicious|insecure|vulnerable|unsafe|"
    r"persistence|reverse\s+shells?|compromised?)"
)
_SHOWN = (
    r"(?:examples?|signs?|patterns?|looks?\s+like|such\s+as|samples?|techniques?|indicators?|"
    r"typical|commands?\s+that|payloads?|strings?|tests?|detect\w*|recogni[sz]e|findings?)"
)
_EXAMPLE = re.compile(
    rf"\b{_EVIL}\b[^.!?\n]{{0,80}}\b{_SHOWN}\b|\b{_SHOWN}\b[^.!?\n]{{0,80}}\b{_EVIL}\b",
    re.IGNORECASE,
)
_BAD = re.compile(
    r"(?:^|\n)\W*(?:bad|wrong|anti-?patterns?|red\s+flags?|vulnerable|insecure|unsafe|"
    r"what\s+never\b|don['’]?ts?\b)\b|❌|🚫|⛔",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"(?:^|[.!?:;]\s+|\bthen\s+|\bnow\s+|\bfirst\s+|\bplease\s+|\bmust\s+|\band\s+)"
    r"(?:run|execute|paste|start|type|install|apply)\b",
    re.IGNORECASE,
)


def warns(text: str) -> bool:
    """Whether these few sentences keep a reader from doing what follows them."""
    against = _AGAINST.search(text)
    if against and not _UNLESS.search(text, against.start()):
        return True
    if _ORDERS.search(text):
        return False
    return bool(_EXAMPLE.search(text) or _BAD.search(text))
