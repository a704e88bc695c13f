"""Whether a `curl` command line hands a secret to somebody it does not belong to."""

import re
from collections.abc import Iterator
from typing import Final

_PART = re.compile(
    r"""\$\{\{[^{}\n]{0,80}\}\}|\$\([^()\n]{0,200}\)|`[^`\n]{0,200}`|'[^']*'|"(?:\\.|[^"\\])*"|\\\n|\\.|\s+|&&|\|\||[|;]"""
    r"""|[^\s'"\\|;`$&]+|.""",
    re.DOTALL,
)
_STOPS = frozenset(("|", "||", "&&", ";"))
_CREDENTIAL_FLAGS = frozenset(
    [
        "-h",
        "--header",
        "-u",
        "--user",
        "--proxy-user",
        "-b",
        "--cookie",
        "--oauth2-bearer",
        "--aws-sigv4",
        "--pass",
        "-e",
        "--cert",
        "--key",
        "-headers",
        "-credential",
        "--password",
        "--http-password",
        "-token",
        "--proxy-header",
        "-o",
        "--output",
        "-w",
        "--write-out",
        "-a",
        "--user-agent",
        "--cacert",
        "--resolve",
    ]
)
_DATA_FLAGS = frozenset(
    [
        "-d",
        "--data",
        "--data-raw",
        "--data-binary",
        "--data-ascii",
        "--data-urlencode",
        "-f",
        "--form",
        "--form-string",
        "--json",
        "-t",
        "--upload-file",
        "--post-data",
        "--post-file",
        "--body-data",
        "--body-file",
        "-body",
        "-infile",
        "--url-query",
    ]
)
_CLUSTER = re.compile(r"-[sfilkgnv]{1,6}([hudt])$")
"""Short options written together, the last with a value: `-sSH`."""
_UPLOAD_FLAGS = frozenset(("-t", "--upload-file", "--post-file", "--body-file", "-infile"))
_VARIABLE = re.compile(
    r"\$\{\{\s*(?:secrets|env)\.(\w{1,60})\s*\}\}|\$(?:env:|\{)?(\w{1,60})\}?|%(\w{1,60})%"
)
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:\w*key|keys|\w*tokens?|\w*secrets?|\w*passw(?:or)?d|pass|pat|credentials?|"
    r"creds?)(?:$|_)"
)
_OPEN_NAME = re.compile(
    r"public|_(?:url|uri|host|base|endpoint|port|version|path|file|name|id|dir|url)$"
)
_SECRET_FILE = re.compile(
    r"(?:@|\$\([^()]{0,60}|`[^`]{0,60})[\w~$%{}./-]{0,60}(?:\.env\b(?!\.example|\.sample|"
    r"\.template)|\.netrc|\.pgpass|"
    r"\.aws/credentials|\.git-credentials|id_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)|/etc/(?:shadow|"
    r"passwd)|"
    r"\.npmrc|\.kube/config|(?<![\w-])credentials\b)"
    r"|(?:\$\(|`)\s*(?:env|printenv|set|export -p)\b"
)
_FIELD = re.compile(r"([\w.\[\]-]{1,40})[\"'\\]{0,4}\s*[:=]\s*[\"'\\@]{0,6}(?:bearer |basic )?$")
_CREDENTIAL_FIELD = re.compile(
    r"(?:^|[_.-]|\b)(?:\w*key|\w*token|\w*secret|\w*passw(?:or)?d|pass|auth\w*|credentials?|appid|"
    r"pwd|pat|"
    r"signature|assertion|jwt|login)(?:$|[_.-])"
)
_HOST = re.compile(r"^[\"'<]*(?:[a-z]{2,6}://)?(?:[^/@\s]*@)?([^/?\s\"'#]*)([^?\s]*)")
_NEAR = re.compile(
    r"^(?:localhost|127\.|0\.0\.0\.0|\[::1?\]|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|"
    r"host\.docker\.|"
    r"[\w-]+:\d+$|[\w.-]+\.(?:local|internal|lan)(?::\d+)?$)"
)
_PLACEHOLDER = re.compile(
    r"[$<{%\[]|your|(?:^|\.)example\.(?:com|org|net)$|^host(?:name)?(?::|$)|\.\.\.|…"
)
_API = re.compile(
    r"^(?:[\w-]*api[\w-]*|auth[\w-]*|login|oauth2?|accounts?|id|sso|identity|hooks|rest|graph|"
    r"gateway)\."
    r"|[.-]api[.-]|googleapis\.com$"
)
_API_PATH = re.compile(
    r"/(?:api|v\d[\w.]{0,6}|rest|oauth2?|tokens?|auth|login|graphql|hooks?|webhooks?|services|rpc|"
    r"bot\$|"
    r"[\w-]+\.(?:json|php|xml))(?:/|$|\b)"
)
_VENDORS: Final = {
    "openai": "openai",
    "anthropic": "anthropic|claude",
    "github": "github",
    "gh": "github",
    "gitlab": "gitlab",
    "aws": "amazonaws|aws",
    "stripe": "stripe",
    "slack": "slack",
    "hf": "huggingface|hf",
    "npm": "npm",
    "pypi": "pypi",
    "gemini": "google",
    "google": "google",
    "openrouter": "openrouter",
    "telegram": "telegram",
    "discord": "discord",
    "ssh": "-",
}
"""Whose secrets they are, by the first part of the name, and what the host must contain."""


def sends_secret(command: str) -> bool:
    """Whether the (small-lettered) command line sends a secret as data or in its address."""
    words = list(_words(command))
    addresses = [word for word in words[1:] if "://" in word or word.startswith(("$", "www."))]
    address = next((word for word in addresses if "://" in word), next(iter(addresses), ""))
    flag = ""
    for word in words[1:]:
        option, value = _split(word)
        if option and not value:
            flag = option
            continue
        flag = option or flag
        if _names_secret_file(flag, value):
            return True
        if flag not in _CREDENTIAL_FLAGS and _hands_over(value, address):
            return True
        flag = ""
    return False


def _split(word: str) -> tuple[str, str]:
    """The option and its value, either of which may be missing: `--data=x`, `-hAccept: x`, `-d`."""
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
    """A file of secrets that is sent; `--cert FILE` and `--netrc-file FILE` curl reads itself."""
    read_here = "$(" not in value and "`" not in value
    if read_here and (flag in _CREDENTIAL_FLAGS or "netrc" in flag):
        return False
    return bool(_SECRET_FILE.search(f"@{value}" if flag in _UPLOAD_FLAGS else value))


def _words(command: str) -> Iterator[str]:
    """Words as a shell would split them, up to the end of this command; quotation marks kept."""
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


def _hands_over(value: str, address: str) -> bool:
    host, path = _host(address)
    for match in _VARIABLE.finditer(value):
        name = next(filter(None, match.groups()), "")
        if not _SECRET_NAME.search(name) or _OPEN_NAME.search(name):
            continue
        before = value[: match.start()]
        if _NEAR.match(host) or re.search(r"://[^/]*$", before):
            continue  # a service of one's own; or `https://user:$TOKEN@host`, or the host itself
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


def _host(address: str) -> tuple[str, str]:
    match = _HOST.match(address)
    return (match[1], match[2]) if match else ("", "")
