"""Where the output of one program goes: keys and private data on their way out."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from hermes.security.danger.catalogue import rules_for
from hermes.security.danger.credentials import DUMPERS, SECRET_NAME
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.skills.scanner import shell_rules as rules
from hermes.skills.scanner.places import (
    BARE_ADDRESS,
    COLLECTOR,
    HOST,
    LOCAL,
    VENDORS,
    is_env_file,
    is_secret_path,
    is_store,
)
from hermes.skills.scanner.rule import Rule

_SENDERS: Final = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "tftp", "mail", "mailx",
    "mutt", "sendmail", "swaks", "http", "https", "xh", "openssl", "curlie", "croc", "wormhole",
})  # fmt: skip
_RESOLVERS: Final = frozenset({
    "dig", "nslookup", "host", "drill", "delv", "ping", "ping6", "getent", "resolvectl",
})  # fmt: skip
_TELLING: Final = frozenset({
    "base64", "base32", "xxd", "od", "hexdump", "cat", "whoami", "hostname", "id", "env",
    "printenv", "uname", "fold", "openssl", "gzip",
})  # fmt: skip
"""Programs whose output says something about the machine, or packs something up."""
_ENCODERS: Final = frozenset({"base64", "base32", "xxd", "od", "hexdump"})
_COPIERS: Final = frozenset({"scp", "sftp", "gh", "aws", "gsutil", "rclone", "mc"})
_PACKERS: Final = frozenset({"tar", "zip", "cp", "7z", "gpg", "cat", "rsync", "openssl"})
_HEADER_OPTIONS: Final = frozenset(
    {"-H", "--header", "-u", "--user", "--oauth2-bearer", "-A", "-b"}
)
_DATA = re.compile(
    r"-(?:d|F|T|-data\S*|-form|-upload-file|-post-(?:data|file)\S*|-body-\S+)\b|\S*@"
)
_CODE = re.compile(r"^(?:diff|archive|bundle|show|log\b.*-p\b|format-patch)")
_CA_TOOLS = re.compile(
    r"update-ca-certificates|update-ca-trust|trust anchor|security add-trusted-cert|certutil -A"
)
_UNCHECKED = re.compile(r"config\b.*(?:http\.sslVerify|strict-ssl)[ =]+(?:false|0)\b")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


class Flows:
    """One script; what was read before counts when something is uploaded later."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._packed = False
        self._encoded = False
        self.addresses: list[str] = []
        """Everything fetched so far."""

    def follow(self, invocation: Invocation) -> Iterator[Rule]:
        sends = invocation.name in _SENDERS or any(
            _SOCKET.match(redirect.target) for redirect in invocation.redirects
        )
        if sends:
            yield from self._sent(invocation)
            self.addresses += [word for word in invocation.arguments if HOST.match(word)]
        elif _copies_store(invocation):
            yield rules.COPIES_KEYS
        elif invocation.name == "gh" and re.match(r"repo delete\b.*--yes", invocation.text):
            yield rules.DELETES_REPOS
        elif invocation.name in _RESOLVERS:
            yield from self._resolved(invocation)
        if _CA_TOOLS.match(f"{invocation.name} {invocation.text}"):
            yield rules.TRUSTS_CA
        if invocation.name in ("git", "npm") and _UNCHECKED.search(invocation.text):
            yield rules.NO_TLS
        if invocation.name in _PACKERS and self._secret(invocation):
            self._packed = True
        self._encoded = self._encoded or invocation.name in _ENCODERS

    def _sent(self, invocation: Invocation) -> Iterator[Rule]:
        text = invocation.text
        sources = _carried(invocation)
        if any(map(self._secret, sources)) or _attaches_secret(invocation):
            yield rules.SENDS
        elif any(source.name == "git" and _CODE.match(source.text) for source in sources):
            yield rules.SENDS_CODE
        if COLLECTOR.search(text):
            telling = any(source.name in _TELLING for source in sources)
            yield rules.SENDS_DROP if telling else rules.DROPS
        elif BARE_ADDRESS.search(text) and (sources or _DATA.search(text)):
            yield rules.SENDS_NAMELESS
        if self._packed and (_DATA.search(text) or sources):
            yield rules.UPLOADS_LATER
        if _foreign_key(invocation):
            yield rules.FOREIGN_KEY

    def _resolved(self, invocation: Invocation) -> Iterator[Rule]:
        """Names of hosts that are made out of data."""
        made = any(re.search(rf"{UNKNOWN}[\w.-]*\.[a-z]", word) for word in invocation.arguments)
        sources = {source.name for source in (*invocation.fed_by, *invocation.drawn)}
        if made and (sources & _TELLING or self._encoded):
            yield rules.DNS

    def _secret(self, invocation: Invocation) -> bool:
        """Whether its output holds keys, passwords or the whole environment."""
        if invocation.name in DUMPERS and not invocation.arguments:
            return True
        if any(map(is_env_file, invocation.arguments)) and invocation.name in _TELLING:
            return True
        return any(
            rule.kind == "credential access" and rule.test(invocation, self._scene)
            for rule in rules_for(invocation)
        )


def _carried(invocation: Invocation) -> tuple[Invocation, ...]:
    """The programs whose output is sent. What only stands in a header is how one logs in."""
    unknown = [
        (before, word)
        for before, word in pairwise(("", *invocation.arguments))
        if UNKNOWN in word or "$(" in word
    ]
    in_headers = bool(unknown) and all(before in _HEADER_OPTIONS for before, _ in unknown)
    return invocation.upstream if in_headers else invocation.sources


def _attaches_secret(invocation: Invocation) -> bool:
    """`-d @file`, `-F x=@file`, `-T file`, `< file`."""
    words = [part for word in invocation.arguments for part in re.findall(r"@([^;,\s]+)", word)]
    words += [b for a, b in pairwise(invocation.arguments) if a in ("-T", "--upload-file")]
    words += [redirect.target for redirect in invocation.redirects if "<" in redirect.operator]
    return any(is_secret_path(word) or is_env_file(word) for word in words)


def _copies_store(invocation: Invocation) -> bool:
    """The key that logs in, after `-i`, is not copied."""
    if invocation.name == "ssh":
        return any(is_store(word) for source in invocation.upstream for word in source.arguments)
    if invocation.name not in _COPIERS:
        return False
    words = pairwise(("", *invocation.arguments))
    copied = [word for before, word in words if before not in ("-i", "-F") and word[:1] != "-"]
    takes = invocation.name != "gh" or "gist" in copied
    return takes and any(map(is_store, copied[:-1] if invocation.name == "scp" else copied))


def _foreign_key(invocation: Invocation) -> bool:
    """A variable named after one service, sent to another."""
    hosts = [host.lower() for host in HOST.findall(invocation.text) if not LOCAL.match(host)]
    names = [
        VENDORS.get(name.partition("_")[0]) for name in invocation.uses if SECRET_NAME.search(name)
    ]
    return bool(hosts) and any(
        vendor and not any(vendor in host for host in hosts) for vendor in names
    )
