"""Orders to read secrets or to send them away, as command lines and in plain words.

A secret in a header or as user and password is how an API is called and no finding. A secret as
data or inside an address is one, unless it stands in a field named for it (`client_secret=…`) and
the address reads like an API: a collector gets it as `?k=…`, as the whole body, or from a file.
"""

import re
from collections.abc import Iterator
from typing import Final

from hermes.security.injection.mention import forbidden, spoken_of
from hermes.security.injection.requests import sends_secret

_LONGEST: Final = 3_000
_GAP = re.compile(r"[ \t]{2,}")
_WRAPPED = re.compile(r"(?<=[a-z,`])\n(?=[a-z`~.])")
"""A line break inside a sentence; replaced by a space, so that every place stays the same."""
_SENDER = re.compile(
    r"(?<![\w./-])(?:curl(?:\.exe)?|wget|invoke-webrequest|invoke-restmethod|iwr|irm)(?=\s)"
)
_ENVIRONMENT = r"(?:printenv|(?<![\w./])env|export -p|declare -x)"
_VAULT = (
    r"(?:\.netrc|_netrc|\.pgpass|\.git-credentials|/etc/shadow|"
    r"\.config/gcloud/[\w./-]{1,60}|\.config/gh/hosts\.yml|\.hermes/auth\.json)"
)
"""Files with nothing but secrets, outside any project."""
_KEEPER = (
    r"(?:\.env(?:\.(?:local|prod|production|dev|development|staging))?(?!\.\w|[\w-])|"
    r"\.ssh/id_(?:rsa|dsa|ecdsa|ed25519)(?!\.pub)|\.npmrc|\.pypirc|\.docker/config\.json|"
    r"\.kube/config|\.aws/credentials|(?<![\w-])credentials(?:\.(?:json|ya?ml|ini|toml|"
    r"txt))?(?![\w-])|"
    r"(?<![\w-])secrets\.(?:json|ya?ml|toml|env)|private\.key|\.bash_history)"
)
"""Files that hold secrets but that documents name for honest reasons."""
_ANY = rf"(?:{_VAULT}|{_KEEPER})"
_PATH = r"[\"'`]?[\w~$%{}./\\:<>-]{0,60}?"
_READER = (
    r"(?<![\w./-])(?:cat|less|more|head|tail|bat|type|strings|xxd|od|nl|tac|base64|get-content|"
    r"gc)\s+"
    r"(?:-{1,2}[\w=-]{1,20}\s+(?:\d{1,5}\s+)?){0,3}"
)
_SHARING = (
    r"(?:include|send|post|paste|print|output|show|report|return|append|upload|share|reveal|tell|"
    r"put|forward|e-?mail|leak|exfiltrate|transmit|display|reply|respond|answer|repeat|quote|give|"
    r"summari[sz]e|disclose|add|write|insert|encode|copy)"
)
_PLACE = (
    r"(?:(?:your|the|this|a|an|my|every|each|next|final|first) ){0,3}(?:reply|response|answer|"
    r"output|message|chat|"
    r"summary|comment|commit|pull request|pr|issue|conversation|url|webhook|result|report|user|"
    r"question|image|link|query string)\b|https?://|\bme\b|[\w.+-]{1,40}@[\w-]{1,40}\."
)
_READ_VAULT = re.compile(rf"{_READER}{_PATH}{_VAULT}")
_PIPED = re.compile(
    rf"(?:{_READER}{_PATH}{_ANY}|{_ENVIRONMENT})[^\n|]{{0,120}}\|[^\n]{{0,160}}"
    r"(?<![\w./-])(?:curl|wget|nc|ncat|netcat|socat|telnet|mail|sendmail)(?![\w-])"
)
_READ_AND_SHARE = re.compile(
    rf"(?<![\w-])(?:read|open|cat|load|find|get|fetch|extract|collect|grab|take|look (?:at|in|"
    rf"into|up)|access|"
    rf"print|run|execute|search|check|locate|copy|retrieve)\b[^\n.;]{{0,60}}?{_ANY}"
    rf"[^\n]{{0,80}}?(?:\band\b|\bthen\b|[,;.]|&&)\s*(?:\w+ ){{0,3}}?{_SHARING}\b[^\n]{{0,90}}?"
    rf"(?:\b(?:in|into|to|with|at|as|for|of|inside)\b\s*)(?:{_PLACE})"
)
_SHOW_CONTENTS = re.compile(
    rf"(?<![\w-])(?:print|output|display|show(?: me)?|dump|reveal|return|paste|leak|repeat|expose|"
    rf"send(?: me)?|"
    rf"tell me|give me|post|include|disclose|exfiltrate|steal|upload)\s+(?:out )?(?:(?:the|all|"
    rf"any|every|full|whole|"
    rf"entire|raw|complete|exact|me) ){{0,4}}(?:contents?|values?|secrets?|keys|tokens|passwords|"
    rf"credentials|"
    rf"text|everything|data|variables)\s+(?:of|from|in|inside|stored in|found in)\s+"
    rf"(?:(?:the|your|my|any|user's|file|local|project's|all) ){{0,3}}{_PATH}{_ANY}"
)
_SECRETS = (
    r"(?:\.env\b|api[ _-]?keys?|secrets?|credentials?|environment variables?|env vars?|ssh keys?|"
    r"private keys?|passwords?|access tokens?|auth tokens?|\.netrc|\.pgpass|id_rsa|session "
    r"cookies?)"
)
_SEND_AWAY = re.compile(
    rf"(?<![\w-])(?:send|post|upload|exfiltrate|transmit|forward|e-?mail|leak|submit|deliver|"
    rf"copy)\s"
    r"[^\n.]{0,60}?(?:\ball\b|\bany\b|\bevery\b|contents? of|values? of|user'?s|\btheir\b|"
    r"\bfound\b|\byour\b)"
    rf"[^\n]{{0,60}}?{_SECRETS}[^\n]{{0,80}}?\b(?:to|at)\s[^\n]{{0,20}}?"
    r"(?:https?://|\bwww\.|[\w.+-]{1,40}@[\w-]{1,40}\.)"
)

_EXFILTRATE = re.compile(
    r"(?:^|[.!?:;]\s|\bplease\s|\band\s|\bthen\s|[-*]\s)(?:please )?exfiltrate\s[^\n.]{0,60}?"
    + _SECRETS,
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"\.env\b|netrc|\.pgpass|credential|/etc/shadow|gcloud/|gh/hosts|auth\.json|/id_|\.npmrc|"
    r"\.pypirc|"
    r"\.docker/|\.kube/|secrets?\b|\.key\b|_history|api[ _-]?key|env(?:ironment)? var|ssh key|"
    r"private key|password|tokens?\b|id_rsa|session cookie|printenv|\benv\s*\||export -p|declare -x"
)
"""Lines without any of these are not looked at."""

_WORDED: Final = (
    ("exfil_curl", _SEND_AWAY),
    ("exfil_curl", _EXFILTRATE),
    ("exfil_curl", _PIPED),
    ("read_secrets", _READ_VAULT),
    ("read_secrets", _READ_AND_SHARE),
    ("read_secrets", _SHOW_CONTENTS),
)


def commands(plain: str) -> Iterator[tuple[str, int]]:
    """The ids and lines (from 0) of such orders in a plain (folded) text."""
    plain = _GAP.sub(" ", plain.replace("''", "").replace('""', ""))
    prose = _WRAPPED.sub(" ", plain)
    read_to = 0
    for token in _TOKEN.finditer(plain):
        if token.start() < read_to:
            continue
        start = max(read_to, prose.rfind("\n", 0, token.start()) + 1)
        read_to = prose.find("\n", token.end())
        read_to = len(prose) if read_to < 0 else read_to
        for name, pattern in _WORDED:
            match = pattern.search(prose, start, read_to)
            if match and not _excused(plain, *match.span()):
                yield name, plain.count("\n", 0, match.start())
    for start, end in _lines(plain):
        if sends_secret(plain[start:end]) and not _excused(plain, start, end):
            yield "exfil_curl", plain.count("\n", 0, start)


def _excused(plain: str, start: int, end: int) -> bool:
    return forbidden(plain, start) or spoken_of(plain, start, end, "")


def _lines(plain: str) -> Iterator[tuple[int, int]]:
    """Each command line that sends something, continued lines included."""
    at = 0
    while found := _SENDER.search(plain, at):
        end = plain.find("\n", found.start())
        while end > 0 and plain[end - 1] in "\\`^" and end - found.start() < _LONGEST:
            end = plain.find("\n", end + 1)
        at = end if end >= 0 else len(plain)
        yield found.start(), min(at, found.start() + _LONGEST)
