"""Instructions to read or send secrets, as command lines and in plain words.

A secret in a header or as user and password is how an API is called and not a finding. A secret as
data or inside a URL is one, unless it is in a field named for it (`client_secret=…`) and the URL
looks like an API: a collector receives it as `?k=…`, as the whole body, or from a file.
"""

import re
from collections.abc import Iterator
from typing import Final

from hermes.security.injection.wording import is_forbidden, is_mention
from hermes.util.lazy import late_pattern

# Whether a `curl` command line sends a secret to a party it does not belong to.

_PART = late_pattern(
    r"""\$\{\{[^{}\n]{0,80}\}\}|\$\([^()\n]{0,200}\)|`[^`\n]{0,200}`|'[^']*'|"(?:\\.|[^"\\])*"|\\\n|\\.|\s+|&&|\|\||[|;]"""
    r"""|[^\s'"\\|;`$&]+|.""",
    re.DOTALL,
)
_STOPS = frozenset(("|", "||", "&&", ";"))
_CREDENTIAL_FLAGS = frozenset({
    "-h", "--header", "-u", "--user", "--proxy-user", "-b", "--cookie", "--oauth2-bearer",
    "--aws-sigv4", "--pass", "-e", "--cert", "--key", "-headers", "-credential", "--password",
    "--http-password", "-token", "--proxy-header", "-o", "--output", "-w", "--write-out", "-a",
    "--user-agent", "--cacert", "--resolve",
})  # fmt: skip
_DATA_FLAGS = frozenset({
    "-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "-f",
    "--form", "--form-string", "--json", "-t", "--upload-file", "--post-data", "--post-file",
    "--body-data", "--body-file", "-body", "-infile", "--url-query",
})  # fmt: skip
_CLUSTER = late_pattern(r"-[sfilkgnv]{1,6}([hudt])$")
"""Bundled short options, the last with a value: `-sSH`."""
_UPLOAD_FLAGS = frozenset(("-t", "--upload-file", "--post-file", "--body-file", "-infile"))
_VARIABLE = late_pattern(
    r"\$\{\{\s*(?:secrets|env)\.(\w{1,60})\s*\}\}|\$(?:env:|\{)?(\w{1,60})\}?|%(\w{1,60})%"
)
_SECRET_NAME = late_pattern(
    r"(?:^|_)(?:\w*key|keys|\w*tokens?|\w*secrets?|\w*passw(?:or)?d|pass|pat|credentials?|"
    r"creds?)(?:$|_)"
)
_OPEN_NAME = late_pattern(
    r"public|_(?:url|uri|host|base|endpoint|port|version|path|file|name|id|dir|url)$"
)
_SECRET_FILE = late_pattern(
    r"(?:@|\$\([^()]{0,60}|`[^`]{0,60})[\w~$%{}./-]{0,60}(?:\.env\b(?!\.example|\.sample|"
    r"\.template)|\.netrc|\.pgpass|\.aws/credentials|\.git-credentials|id_(?:rsa|ed25519|ecdsa|"
    r"dsa)\b(?!\.pub)|/etc/(?:shadow|passwd)|\.npmrc|\.kube/config|(?<![\w-])credentials\b)|"
    r"(?:\$\(|`)\s*(?:env|printenv|set|export -p)\b"
)
_FIELD = late_pattern(r"([\w.\[\]-]{1,40})[\"'\\]{0,4}\s*[:=]\s*[\"'\\@]{0,6}(?:bearer |basic )?$")
_CREDENTIAL_FIELD = late_pattern(
    r"(?:^|[_.-]|\b)(?:\w*key|\w*token|\w*secret|\w*passw(?:or)?d|pass|auth\w*|credentials?|appid|"
    r"pwd|pat|signature|assertion|jwt|login)(?:$|[_.-])"
)
_HOST = late_pattern(r"^[\"'<]*(?:[a-z]{2,6}://)?(?:[^/@\s]*@)?([^/?\s\"'#]*)([^?\s]*)")
_NEAR = late_pattern(
    r"^(?:localhost|127\.|0\.0\.0\.0|\[::1?\]|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|"
    r"host\.docker\.|[\w-]+:\d+$|[\w.-]+\.(?:local|internal|lan)(?::\d+)?$)"
)
_PLACEHOLDER = late_pattern(
    r"[$<{%\[]|your|(?:^|\.)example\.(?:com|org|net)$|^host(?:name)?(?::|$)|\.\.\.|…"
)
_API = late_pattern(
    r"^(?:[\w-]*api[\w-]*|auth[\w-]*|login|oauth2?|accounts?|id|sso|identity|hooks|rest|graph|"
    r"gateway)\.|[.-]api[.-]|googleapis\.com$"
)
_API_PATH = late_pattern(
    r"/(?:api|v\d[\w.]{0,6}|rest|oauth2?|tokens?|auth|login|graphql|hooks?|webhooks?|services|rpc|"
    r"bot\$|[\w-]+\.(?:json|php|xml))(?:/|$|\b)"
)
_VENDORS: Final = {
    "openai": "openai", "anthropic": "anthropic|claude", "github": "github", "gh": "github",
    "gitlab": "gitlab", "aws": "amazonaws|aws", "stripe": "stripe", "slack": "slack",
    "hf": "huggingface|hf", "npm": "npm", "pypi": "pypi", "gemini": "google", "google": "google",
    "openrouter": "openrouter", "telegram": "telegram", "discord": "discord", "ssh": "-",
}  # fmt: skip
"""The owner of secrets by the first part of the name, and what the host must contain."""


def sends_secret(command: str) -> bool:
    """Return whether the (lower-case) command line sends a secret as data or in its URL."""
    words = list(_split_words(command))
    addresses = [word for word in words[1:] if "://" in word or word.startswith(("$", "www."))]
    address = next((word for word in addresses if "://" in word), next(iter(addresses), ""))
    flag = ""
    for word in words[1:]:
        option, value = _split_option(word)
        if option and not value:
            flag = option
            continue
        flag = option or flag
        if _names_secret_file(flag, value):
            return True
        if flag not in _CREDENTIAL_FLAGS and _leaks_secret(value, address):
            return True
        flag = ""
    return False


def _split_option(word: str) -> tuple[str, str]:
    """Return the option and its value, either of which may be missing: `--data=x`, `-hAccept:
    x`."""
    if word.startswith("--"):
        option, _, value = word.partition("=")
        return option, value
    if word.startswith("-"):
        if cluster := _CLUSTER.match(word):
            return f"-{cluster[1]}", ""
        whole = word in _CREDENTIAL_FLAGS or word in _DATA_FLAGS
        return (word, "") if whole else (word[:2], word[2:])
    return "", word


def _names_secret_file(flag: str, value: str) -> bool:
    """Return whether a file of secrets is sent; curl itself reads `--cert FILE`, `--netrc-file
    FILE`."""
    read_here = "$(" not in value and "`" not in value
    if read_here and (flag in _CREDENTIAL_FLAGS or "netrc" in flag):
        return False
    return bool(_SECRET_FILE.search(f"@{value}" if flag in _UPLOAD_FLAGS else value))


def _split_words(command: str) -> Iterator[str]:
    """Yield words as a shell would split them, up to the end of this command, with quotes."""
    word = ""
    for match in _PART.finditer(command):
        part = match[0]
        if part in _STOPS:
            break
        if part.isspace() or part == "\\\n":
            if word:
                yield word
            word = ""
        else:
            word += part
    if word:
        yield word


def _leaks_secret(value: str, address: str) -> bool:
    address_parts = _HOST.match(address)
    host, path = address_parts.groups() if address_parts else ("", "")
    for match in _VARIABLE.finditer(value):
        name = next(filter(None, match.groups()), "")
        if not _SECRET_NAME.search(name) or _OPEN_NAME.search(name):
            continue
        before = value[: match.start()]
        if _NEAR.match(host) or re.search(r"://[^/]*$", before):
            continue  # a local service, `https://user:$TOKEN@host`, or the host itself
        if not _is_credential(name, before, host, path):
            return True
    return False


def _is_credential(name: str, before: str, host: str, path: str) -> bool:
    vendor = name.partition("_")[0]
    owner = _VENDORS.get(vendor)
    if owner is not None and host and not _PLACEHOLDER.search(host):
        if not re.search(owner, host):
            return False
    elif len(vendor) > 3 and vendor in host:
        return True
    known = bool(
        not host
        or _PLACEHOLDER.search(host)
        or _API.search(host)
        or _API_PATH.search(path)
        or owner
    )
    field = _FIELD.search(before)
    if field is not None:
        return known and bool(_CREDENTIAL_FIELD.search(field[1]))
    return known and "/" in before.partition("://")[2]  # part of the path: `…/bot$TOKEN/…`


_LONGEST: Final = 3_000
_GAP = late_pattern(r"[ \t]{2,}")
_WRAPPED = late_pattern(r"(?<=[a-z,`])\n(?=[a-z`~.])")
"""A line break inside a sentence; replaced by a space, so that all offsets stay the same."""
_SENDER = late_pattern(
    r"(?<![\w./-])(?:curl(?:\.exe)?|wget|invoke-webrequest|invoke-restmethod|iwr|irm)(?=\s)"
)
_ENVIRONMENT = r"(?:printenv|(?<![\w./])env|export -p|declare -x)"
_VAULT = (
    r"(?:\.netrc|_netrc|\.pgpass|\.git-credentials|/etc/shadow|"
    r"\.config/gcloud/[\w./-]{1,60}|\.config/gh/hosts\.yml|\.hermes/auth\.json)"
)
"""Files that contain only secrets, outside any project."""
_KEEPER = (
    r"(?:\.env(?:\.(?:local|prod|production|dev|development|staging))?(?!\.\w|[\w-])|"
    r"\.ssh/id_(?:rsa|dsa|ecdsa|ed25519)(?!\.pub)|\.npmrc|\.pypirc|\.docker/config\.json|"
    r"\.kube/config|\.aws/credentials|(?<![\w-])credentials(?:\.(?:json|ya?ml|ini|toml|"
    r"txt))?(?![\w-])|(?<![\w-])secrets\.(?:json|ya?ml|toml|env)|private\.key|\.bash_history)"
)
"""Files that hold secrets but that documents mention for legitimate reasons."""
_ANY = rf"(?:{_VAULT}|{_KEEPER})"
_PATH = r"[\"'`]?[\w~$%{}./\\:<>-]{0,60}?"
_READER = (
    r"(?<![\w./-])(?:cat|less|more|head|tail|bat|type|strings|xxd|od|nl|tac|base64|get-content|"
    r"gc)\s+(?:-{1,2}[\w=-]{1,20}\s+(?:\d{1,5}\s+)?){0,3}"
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
_READ_VAULT = late_pattern(rf"{_READER}{_PATH}{_VAULT}")
_PIPED = late_pattern(
    rf"(?:{_READER}{_PATH}{_ANY}|{_ENVIRONMENT})[^\n|]{{0,120}}\|[^\n]{{0,160}}"
    r"(?<![\w./-])(?:curl|wget|nc|ncat|netcat|socat|telnet|mail|sendmail)(?![\w-])"
)
_READ_AND_SHARE = late_pattern(
    rf"(?<![\w-])(?:read|open|cat|load|find|get|fetch|extract|collect|grab|take|look (?:at|in|into|"
    rf"up)|access|print|run|execute|search|check|locate|copy|retrieve)\b[^\n.;]{{0,60}}?{_ANY}[^\n]"
    rf"{{0,80}}?(?:\band\b|\bthen\b|[,;.]|&&)\s*(?:\w+ ){{0,3}}?{_SHARING}\b[^\n]"
    rf"{{0,90}}?(?:\b(?:in|into|to|with|at|as|for|of|inside)\b\s*)(?:{_PLACE})"
)
_SHOW_CONTENTS = late_pattern(
    rf"(?<![\w-])(?:print|output|display|show(?: me)?|dump|reveal|return|paste|leak|repeat|expose|"
    rf"send(?: me)?|tell me|give me|post|include|disclose|exfiltrate|steal|upload)\s+(?:out "
    rf")?(?:(?:the|all|any|every|full|whole|entire|raw|complete|exact|me) ){{0,4}}(?:contents?|"
    rf"values?|secrets?|keys|tokens|passwords|credentials|text|everything|data|variables)\s+(?:of|"
    rf"from|in|inside|stored in|found in)\s+(?:(?:the|your|my|any|user's|file|local|project's|"
    rf"all) ){{0,3}}{_PATH}{_ANY}"
)
_SECRETS = (
    r"(?:\.env\b|api[ _-]?keys?|secrets?|credentials?|environment variables?|env vars?|ssh keys?|"
    r"private keys?|passwords?|access tokens?|auth tokens?|\.netrc|\.pgpass|id_rsa|session "
    r"cookies?)"
)
_SEND_AWAY = late_pattern(
    rf"(?<![\w-])(?:send|post|upload|exfiltrate|transmit|forward|e-?mail|leak|submit|deliver|"
    rf"copy)\s"
    r"[^\n.]{0,60}?(?:\ball\b|\bany\b|\bevery\b|contents? of|values? of|user'?s|\btheir\b|"
    r"\bfound\b|\byour\b)"
    rf"[^\n]{{0,60}}?{_SECRETS}[^\n]{{0,80}}?\b(?:to|at)\s[^\n]{{0,20}}?"
    r"(?:https?://|\bwww\.|[\w.+-]{1,40}@[\w-]{1,40}\.)"
)

_EXFILTRATE = late_pattern(
    r"(?:^|[.!?:;]\s|\bplease\s|\band\s|\bthen\s|[-*]\s)(?:please )?exfiltrate\s[^\n.]{0,60}?"
    + _SECRETS,
    re.MULTILINE,
)
_TOKEN = late_pattern(
    r"\.env\b|netrc|\.pgpass|credential|/etc/shadow|gcloud/|gh/hosts|auth\.json|/id_|\.npmrc|"
    r"\.pypirc|"
    r"\.docker/|\.kube/|secrets?\b|\.key\b|_history|api[ _-]?key|env(?:ironment)? var|ssh key|"
    r"private key|password|tokens?\b|id_rsa|session cookie|printenv|\benv\s*\||export -p|declare -x"
)
"""Lines without any of these are skipped."""

_WORDED: Final = (
    ("exfil_curl", _SEND_AWAY),
    ("exfil_curl", _EXFILTRATE),
    ("exfil_curl", _PIPED),
    ("read_secrets", _READ_VAULT),
    ("read_secrets", _READ_AND_SHARE),
    ("read_secrets", _SHOW_CONTENTS),
)


def scan_commands(plain: str) -> Iterator[tuple[str, int]]:
    """Yield the ids and lines (from 0) of such instructions in a folded text."""
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
            if match and not _is_excused(plain, *match.span()):
                yield name, plain.count("\n", 0, match.start())
    for start, end in _command_lines(plain):
        if sends_secret(plain[start:end]) and not _is_excused(plain, start, end):
            yield "exfil_curl", plain.count("\n", 0, start)


def _is_excused(plain: str, start: int, end: int) -> bool:
    return is_forbidden(plain, start) or is_mention(plain, start, end, "")


def _command_lines(plain: str) -> Iterator[tuple[int, int]]:
    """Yield each command line that sends something, including continuation lines."""
    at = 0
    while found := _SENDER.search(plain, at):
        end = plain.find("\n", found.start())
        while end > 0 and plain[end - 1] in "\\`^" and end - found.start() < _LONGEST:
            end = plain.find("\n", end + 1)
        at = end if end >= 0 else len(plain)
        yield found.start(), min(at, found.start() + _LONGEST)
