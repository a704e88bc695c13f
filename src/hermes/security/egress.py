"""What may leave: whether a tool call of a session may send data to another machine.

A session that has read private data and text of strangers may have been misled into sending the
one as the other says. From then on, sending to a host that is not on a list needs approval. Without
a user to ask, sending local data to such a host needs approval from the start.

Commands are judged by their parsed programs. What a program does that is neither known here nor
readable as text is not seen.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from hermes.core.messages import Assistant, Message, ToolCall, ToolResult, User
from hermes.core.model import ToolSpec
from hermes.core.tool import Concern, Effect, Tool, ToolContext
from hermes.security.paths import SYSTEM_FOLDERS, PathGuard, is_below
from hermes.util.lazy import late_pattern

LEAVING = ("data leaves", "sends data of a session that has read private files to other hosts")
"""The pattern class of every question asked here, and what it is about."""
SECRET_KIND = "secret in a URL"
MAX_REASONS = 20  #: Reasons of each sort that are kept.
MAX_URLS = 20_000  #: URLs that are remembered.
MAX_SCRIPT_BYTES = 262_144  #: A longer script is not read; it counts as one that uses the network.

FETCH_HOSTS = (
    "pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com",
    "crates.io", "*.crates.io", "static.rust-lang.org", "proxy.golang.org", "sum.golang.org",
    "go.dev", "rubygems.org", "*.debian.org", "*.ubuntu.com", "dl-cdn.alpinelinux.org",
    "*.fedoraproject.org", "repo.maven.apache.org", "repo1.maven.org", "packagist.org",
    "repo.packagist.org", "conda.anaconda.org", "repo.anaconda.com", "formulae.brew.sh",
    "download.pytorch.org", "nodejs.org", "ghcr.io", "registry-1.docker.io", "auth.docker.io",
    "github.com", "api.github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com",
    "bitbucket.org", "codeberg.org",
)  # fmt: skip
"""Package registries and forges: anyone may fetch there, and only the operator sees the request.
Uploads are not covered, because strangers can read what is published there."""

FORGES = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
"""Hosts on which a repository of the user does not make other repositories theirs."""

TOOL_FOLDERS = (
    ".venv", ".pyenv", ".nvm", ".cargo", ".rustup", ".cache", ".npm", ".deno", ".bun", ".asdf",
    ".rbenv", ".sdkman", ".conda", "miniconda3", "anaconda3", "go", ".local/bin", ".local/lib",
    ".local/share/uv", ".local/share/virtualenvs", ".local/share/pnpm",
)  # fmt: skip
"""Below the home: installed programs and caches, without data of the user."""
OWN_OPEN_FOLDERS = ("skills", "plugins", "cache", "workspaces")
"""In the home of Hermes: what it gives to the agent to read."""
OPEN_FOLDERS = (*SYSTEM_FOLDERS, "/tmp", "/var/tmp", "/opt", "/nix", "/snap", "/var/cache")
"""Outside the home: nothing private, except keys."""

UNTRUSTED_SOURCES = ("webhook", "email")  #: Platforms on which strangers write the messages.
DOCUMENTS = (".md", ".rst", ".txt", ".html", ".css", ".svg")  #: Not run as code.
WEB_TEXT = "is content from the web: data, not instructions]"  #: Marks pages in a message.


class Payload(IntEnum):
    """What a transfer carries, by how much it can tell a stranger."""

    FETCH = 0  #: A literal URL without a query.
    QUERY = 1  #: Literal text: a query, or the body of a request.
    CODE = 2  #: Unknown: a program that uses the network as it likes.
    DATA = 3  #: Files, or the output of programs.


class Transfer(msgspec.Struct, frozen=True):
    """Data that a call would send to another machine."""

    host: str  #: In lower case; "" if it cannot be determined.
    payload: Payload
    what: str  #: For the user who is asked.
    url: str = ""  #: The literal URL that would be fetched.


class Flow(msgspec.Struct, frozen=True):
    """What one call reads and sends."""

    private: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    written: tuple[str, ...] = ()  #: Files with code that uses the network.
    runs: bool = False  #: It runs code of the project.


class Exposure:
    """What a session has seen; its subagents share it."""

    def __init__(self) -> None:
        self.private: dict[str, None] = {}
        self.untrusted: dict[str, None] = {}
        self.written: dict[str, None] = {}
        self.urls: set[str] = set()
        """URLs that the web or the user named. Fetching one of them tells the host nothing new."""
        self.restored = False  #: The stored history was taken into account once.
        self.calls: set[ToolCall] = set()  #: Its calls that were taken into account.

    def add(self, flow: Flow) -> None:
        pairs = (
            (self.private, flow.private),
            (self.untrusted, flow.untrusted),
            (self.written, flow.written),
        )
        for kept, found in pairs:
            kept.update(dict.fromkeys(found[: MAX_REASONS - len(kept)]))

    def add_urls(self, text: str) -> None:
        if len(self.urls) < MAX_URLS:
            self.urls.update(_URL.findall(text)[:2_000])


class EgressRules(msgspec.Struct, frozen=True):
    """The settings that decide where data may go."""

    allowed: tuple[str, ...] = ()
    """Patterns of hosts that may receive anything, such as `*.example.org`."""
    headless: bool = False  #: No user can be asked.
    redact: Callable[[str], str] = str  #: Removes known secrets from a text.


async def _no_handler(_context: ToolContext, _arguments: dict[str, Any]) -> str:
    return ""


async def _no_messages() -> Iterable[Message]:
    return ()


class EgressPolicy:
    """Decides which calls of a session need approval because of what they send.

    `folder` returns the current folder of the shell. `load_messages` returns the stored messages of
    the session, of those it continues, and of its subagents: a resumed session has seen what it saw
    before. In an `isolated` place the files are not those of the user.
    """

    def __init__(
        self,
        guard: PathGuard,
        folder: Callable[[], str],
        rules: EgressRules,
        *,
        find_tool: Callable[[str], Tool | None] = lambda _name: None,
        load_messages: Callable[[], Awaitable[Iterable[Message]]] = _no_messages,
        exposure: Exposure | None = None,
        isolated: bool = False,
    ) -> None:
        self._guard, self._folder, self._rules = guard, folder, rules
        self._find_tool, self._load, self._isolated = find_tool, load_messages, isolated
        self.exposure = exposure or Exposure()
        self._last: tuple[str, Flow] = ("", Flow())

    async def examine(self, tool: Tool, arguments: Mapping[str, Any]) -> Concern | None:
        """Return why a call needs approval; None if nothing leaves that must not."""
        _ = self._remotes  # as they are before the first call can change them
        if concern := self._check_secrets(tool, arguments):
            return concern
        self._last = "", Flow()
        return await self._judge(self._flow(tool, arguments), _subject(tool, arguments))

    async def examine_command(self, command: str, folder: str) -> Concern | None:
        """Do the same for a command that a script starts."""
        return await self._judge(self._command_flow(command, folder), command)

    async def examine_connection(self, host: str, port: int) -> Concern | None:
        """Do the same for a connection that a script opens."""
        host = host.lower().rstrip(".")
        transfer = Transfer(host, Payload.CODE, "what the script sends")
        return await self._judge(Flow(transfers=(transfer,)), f"{host}:{port}")

    def observe(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """Record what a call that may run is about to read."""
        self.exposure.add(self._flow(tool, arguments))
        self._last = "", Flow()  # the same call may do something else the next time

    def observe_command(self, command: str, folder: str) -> None:
        self.exposure.add(self._command_flow(command, folder))

    def observe_path(self, path: str) -> None:
        """Record a file that a script reads."""
        if not self._isolated and (reason := private_reason(path, self._guard)):
            self.exposure.add(Flow(private=(reason,)))

    def observe_result(self, tool: Tool, result: str) -> None:
        """Remember the URLs that the web named."""
        if tool.name in ("web_search", "web_extract"):
            self.exposure.add_urls(result)

    async def _judge(self, flow: Flow, subject: str) -> Concern | None:
        unlisted = [each for each in flow.transfers if not self._is_listed(each)]
        if not unlisted and not flow.runs:
            return None
        if unlisted or not self.exposure.restored:
            await self._restore()
        if flow.runs and (written := [*self.exposure.written, *flow.written]):
            what = f"what {written[0]}, written in this session, sends"
            unlisted.append(Transfer("", Payload.CODE, what))
        private = [*self.exposure.private, *flow.private]
        untrusted = list(self.exposure.untrusted)
        for each in sorted(unlisted, key=lambda transfer: -transfer.payload):
            if self._needs_approval(each, is_private=bool(private), is_misled=bool(untrusted)):
                effect = Effect.SEND if each.payload > Payload.QUERY else Effect.NETWORK
                reason = _reason(each, private, untrusted)
                return Concern(LEAVING[0], subject, reason, effect=effect, folder=self._folder())
        return None

    def _needs_approval(self, transfer: Transfer, *, is_private: bool, is_misled: bool) -> bool:
        payload = transfer.payload
        if transfer.url and transfer.url in self.exposure.urls:
            return False
        if is_loopback(transfer.host) and not (is_private and payload > Payload.QUERY):
            return False  # a development server
        if is_private and is_misled:
            return True
        if not self._rules.headless:
            return False
        return payload is Payload.DATA or (is_private and payload > Payload.FETCH)

    def _is_listed(self, transfer: Transfer) -> bool:
        host = transfer.host
        if not host:
            return False
        if any(fnmatchcase(host, pattern.lower()) for pattern in self._rules.allowed):
            return True
        if host in self._remotes.hosts:
            return True
        return transfer.payload < Payload.CODE and any(
            fnmatchcase(host, pattern) for pattern in FETCH_HOSTS
        )

    async def _restore(self) -> None:
        """Take the stored history into account: earlier processes, and messages of the user."""
        self.exposure.restored = True
        pending: dict[str, ToolCall] = {}
        for message in await self._load():
            match message:
                case Assistant():
                    pending |= {call.id: call for call in message.calls}
                case ToolResult() if call := pending.pop(message.call_id, None):
                    self._restore_call(call, message)
                case User():
                    self.exposure.add_urls(message.text)
                    if WEB_TEXT in message.text:
                        self.exposure.add(Flow(untrusted=("a web page in a message",)))

    def _restore_call(self, call: ToolCall, result: ToolResult) -> None:
        if call in self.exposure.calls:
            return
        # A tool that the session no longer has may have shown anything.
        spec = ToolSpec(call.name, "", {})
        tool = self._find_tool(call.name) or Tool(spec, _no_handler, Effect.NETWORK)
        self.exposure.calls.add(call)
        if not result.failed or "was stopped after" in result.text:
            self.exposure.add(self._flow(tool, _decoded(call.arguments)))
            self.observe_result(tool, result.text)

    @cached_property
    def _remotes(self) -> "GitRemotes":
        roots = () if self._isolated or not self._guard.here else self._guard.workspace
        return GitRemotes.of(tuple(map(str, roots)))

    def _check_secrets(self, tool: Tool, arguments: Mapping[str, Any]) -> Concern | None:
        if tool.effect is not Effect.NETWORK and not tool.toolset.startswith("mcp-"):
            return None
        for text in _strings(arguments):
            once = unquote(text)
            if any(self._rules.redact(each) != each for each in (text, once, unquote(once))):
                reason = f"the arguments of {tool.name} contain a key or password"
                return Concern(SECRET_KIND, tool.name, reason, refused=True, effect=Effect.NETWORK)
        return None

    # What a call reads and sends, from its arguments.

    def _flow(self, tool: Tool, arguments: Mapping[str, Any]) -> Flow:
        folder = self._folder()
        key = f"{folder}\0{tool.name}\0{msgspec.json.encode(arguments, enc_hook=str).decode()}"
        if self._last[0] != key:  # asked for before the call and again when it runs
            self._last = key, self._read_call(tool, arguments, folder)
        return self._last[1]

    def _read_call(self, tool: Tool, arguments: Mapping[str, Any], folder: str) -> Flow:
        match tool.name:
            case "terminal":
                where = self._guard.resolve(str(arguments.get("workdir") or folder), folder)
                held = bool(arguments.get("background") or arguments.get("pty"))
                return self._command_flow(str(arguments.get("command", "")), where, held=held)
            case "process":
                return self._input_flow(arguments, folder)
            case "execute_code":  # its effects are reported while it runs; this is for the history
                return self._code_flow(str(arguments.get("code", "")), reads_only=True)
            case "read_file" | "search_files":
                path = self._guard.resolve(str(arguments.get("path") or "."), folder)
                reason = "" if self._isolated else private_reason(path, self._guard)
                return Flow(private=(reason,) if reason else ())
            case "web_search":
                return Flow(untrusted=("search results",))  # the query goes to a chosen service
            case "session_search":
                return Flow(private=("earlier conversations",))
            case "write_file" | "patch":
                return self._edit_flow(arguments)
            case "send_message":
                target = str(arguments.get("target", ""))
                is_sent = arguments.get("action", "send") == "send"
                sent = Transfer(f"send_message:{target}", Payload.CODE, "the message")
                return Flow(transfers=(sent,) if is_sent else ())
        return self._other_flow(tool, arguments)

    def _edit_flow(self, arguments: Mapping[str, Any]) -> Flow:
        """Code that is written now and run later."""
        path = str(arguments.get("path", "a file"))
        if path.endswith(DOCUMENTS) or not any(map(is_network_code, _strings(arguments))):
            return Flow()
        return Flow(written=(path,))

    def _other_flow(self, tool: Tool, arguments: Mapping[str, Any]) -> Flow:
        """Tools of the web, of plugins and of MCP servers."""
        server = tool.toolset.removeprefix("mcp-") if tool.toolset.startswith("mcp-") else ""
        is_web = tool.effect is Effect.NETWORK
        urls = [url for text in _strings(arguments) for url in _URL.findall(text)]
        sent = [_fetch(url) for url in urls] if is_web else []
        if server and (tool.examine is not None or (is_web and not urls)):
            sent.append(Transfer(f"mcp:{server}", Payload.CODE, f"the arguments of {tool.name}"))
        sources = [each.host for each in sent if each.url] or [server or tool.name]
        return Flow((), tuple(sources) if server or is_web else (), tuple(sent))

    def _input_flow(self, arguments: Mapping[str, Any], folder: str) -> Flow:
        """Input of a process: it may be a shell, an interpreter, or a connection."""
        if arguments.get("action") not in ("write", "submit"):
            return Flow()
        data = str(arguments.get("data", ""))
        return _joined(self._command_flow(data, folder), self._code_flow(data))

    def _command_flow(self, command: str, folder: str, *, held: bool = False) -> Flow:
        if self._isolated or not command.strip():
            return Flow()
        from hermes.security.danger.transfers import CommandFlow  # loads tree-sitter

        return CommandFlow(self._guard, folder, self._remotes, held=held).read(command)

    def _code_flow(self, code: str, *, reads_only: bool = False) -> Flow:
        if self._isolated:
            return Flow()
        flow = code_flow(code, self._guard, self._folder())
        return msgspec.structs.replace(flow, transfers=()) if reads_only else flow


def sends_to_allowed(command: str, allowed: Sequence[str], guard: PathGuard, folder: str) -> bool:
    """Return whether a command sends something, and only to hosts that `allowed` names."""
    from hermes.security.danger.transfers import CommandFlow  # loads tree-sitter

    transfers = CommandFlow(guard, folder, GitRemotes()).read(command).transfers
    patterns = [pattern.lower() for pattern in allowed]
    return bool(transfers) and all(
        any(fnmatchcase(each.host, pattern) for pattern in patterns) for each in transfers
    )


def _subject(tool: Tool, arguments: Mapping[str, Any]) -> str:
    if tool.name == "terminal":
        return str(arguments.get("command", ""))
    return f"{tool.name} {msgspec.json.encode(arguments, enc_hook=str).decode()}"


def _reason(transfer: Transfer, private: Sequence[str], untrusted: Sequence[str]) -> str:
    where = transfer.host or "a host that cannot be determined"
    reason = f"{transfer.what} would go to {where}, which is not in security.egress_allow"
    read = [f"has read {private[0]}"] if private else []
    read += [f"has seen text from {untrusted[0]}"] if untrusted else []
    return f"{reason}; this session {' and '.join(read)}" if read else reason


def _joined(*flows: Flow) -> Flow:
    return Flow(
        tuple(reason for flow in flows for reason in flow.private),
        tuple(reason for flow in flows for reason in flow.untrusted),
        tuple(each for flow in flows for each in flow.transfers),
        tuple(name for flow in flows for name in flow.written),
        any(flow.runs for flow in flows),
    )


# Hosts and URLs.

_URL = late_pattern(r"[a-z][a-z0-9+.-]*://[^\s<>\"'`\\)\]}]+")
_AUTHORITY = late_pattern(r"(?:[a-z][a-z0-9+.-]*:)?//+([^/?#\\]*)", 2)  # 2 is re.IGNORECASE


def host_of(url: str) -> str:
    """Return the host of a URL or of `user@host:port/path`; "" if it has none."""
    found = _AUTHORITY.match(url)
    authority = found[1] if found else url.partition("/")[0].partition("?")[0]
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower().rstrip(".")


def is_loopback(host: str) -> bool:
    """Return whether it is this machine, in any spelling that the C library accepts."""
    if host in ("localhost", "::1", "0.0.0.0", "::") or host.endswith(".localhost"):
        return True
    try:
        return socket.inet_aton(host)[0] == 127
    except OSError:
        return False


def _fetch(url: str) -> Transfer:
    payload = Payload.QUERY if "?" in url else Payload.FETCH
    return Transfer(host_of(url), payload, "the request", url)


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from (text for each in value.values() for text in _strings(each))
        case list() | tuple():
            yield from (text for each in value for text in _strings(each))


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


# Private places.


def private_reason(real: str, guard: PathGuard) -> str:
    """Return the file or folder for the user, if its content is private; else "".

    Private is what is outside the workspace, except programs and files of the system; and keys
    everywhere, with the folders above them.
    """
    if guard.is_own(real) or guard.is_credential(real):
        return real
    home = guard.resolve(str(guard.home), "/")
    if any(is_below(real, guard.resolve(str(root), "/")) for root in guard.workspace):
        return real if is_below(home, real) else ""
    for root in guard.own:
        own = guard.resolve(str(root), "/")
        if is_below(real, own):
            return "" if real[len(own) + 1 :].partition("/")[0] in OWN_OPEN_FOLDERS else real
    if is_below(real, home):
        return "" if any(is_below(real, f"{home}/{name}") for name in TOOL_FOLDERS) else real
    if is_below(home, real):
        return real
    if any(is_below(real, folder) for folder in OPEN_FOLDERS):
        return ""
    # Words that only look like paths are common: `/api/users`.
    return "" if guard.here and not os.path.lexists(real) else real


# Code in other languages than that of the shell.

_NETWORK_CODE = late_pattern(
    r"\b(socket|urllib\w*|urlopen|requests|httpx|aiohttp|http\.client|httplib2?|ftplib|smtplib"
    r"|imaplib|telnetlib|paramiko|asyncssh|websockets?|xmlrpc|boto3|open_connection|XMLHttpRequest"
    r"|axios|node-fetch|undici|https?\.(get|request)|net\.(connect|createConnection|dial)|dgram"
    r"|dns\.(lookup|resolve\w*)|LWP|HTTP::\w+|IO::Socket|Net::\w+|open-uri|URI\.open|TCPSocket"
    r"|fsockopen|file_get_contents|net/http|http\.server|SimpleHTTPServer|curl_\w+|stream_socket_client|gethostbyname|getaddrinfo|sendmail"
    r"|(curl|wget|nc|ncat|scp|sftp|ssh|rsync|telnet|ftp|nslookup|dig)(?=[\"' ]))\b"
    r"|\bfetch\s*\(|/dev/(tcp|udp)/|require\(\s*['\"](node:)?(https?|net|dns|tls)['\"]"
)
_HIDDEN_CODE = late_pattern(
    r"\b(__import__|import_module|exec|eval|ctypes|marshal)\b\s*[(.]|\bgetattr\(\s*(__builtins__|sys)"
)
_HOME_CODE = late_pattern(
    r"expanduser|Path\.home|homedir|\bHOME\b|getpw(nam|uid)|Dir\.home|File\.expand_path|USERPROFILE"
)
_PATH_CODE = late_pattern(r"[\"'`](~?/[^\"'`\s]+|~|\.\.(?:/[^\"'`\s]*)?)[\"'`]")


def is_network_code(text: str) -> bool:
    """Return whether code appears to use the network, or hides what it uses."""
    return bool(_NETWORK_CODE.search(text) or _HIDDEN_CODE.search(text))


def code_flow(code: str, guard: PathGuard, folder: str) -> Flow:
    """Return what a program appears to read and send. The destination is never taken as known,
    because the text may name other hosts than the program uses."""
    paths = (guard.resolve(path, folder) for path in _PATH_CODE.findall(code)[:200])
    private = [reason for path in paths if (reason := private_reason(path, guard))]
    if _HOME_CODE.search(code):
        private.append(str(guard.home))
    if not is_network_code(code):
        return Flow(private=tuple(private))
    names = dict.fromkeys(filter(None, map(host_of, _URL.findall(code)[:20])))
    named = f" (it names {', '.join(list(names)[:3])})" if names else ""
    sent = Transfer("", Payload.CODE, f"what the program sends{named}")
    return Flow(tuple(private), tuple(names) or ("the network",), (sent,))


# The remotes of the user's repositories.

_SECTION = late_pattern(r'^\s*\[\s*(\w+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_SETTING = late_pattern(r"^\s*(\w+)\s*=\s*(.*?)\s*$")


class GitRemotes(msgspec.Struct, frozen=True):
    """Where the repositories of the workspace pushed to when the session began."""

    owners: frozenset[tuple[str, str]] = frozenset()  #: Host and first part of the path.

    @classmethod
    def of(cls, folders: Iterable[str]) -> "GitRemotes":
        """Read the repositories that contain `folders`, and those directly in them."""
        found: set[tuple[str, str]] = set()
        for folder in folders:
            for repository in _repositories(folder):
                found |= {remote_owner(url) for url in read_remotes(repository).values()}
        return cls(frozenset(found))

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(host for host, _ in self.owners if host and host not in FORGES)


def remote_owner(url: str) -> tuple[str, str]:
    """Return the host of a repository and whose it is there; a path has the host ""."""
    if "://" not in url and ":" not in url.partition("/")[0]:
        return "", url
    host = host_of(url)
    path = url.partition("://")[2].partition("/")[2] if "://" in url else url.partition(":")[2]
    return host, path.lstrip("/").partition("/")[0].lower()


def read_remotes(repository: str) -> dict[str, str]:
    """Return the push URLs by remote; empty if git would replace URLs by others."""
    try:
        text = Path(repository, ".git", "config").read_text("utf-8", "replace")
    except OSError:
        return {}
    found: dict[str, str] = {}
    section = name = ""
    for line in text.splitlines():
        if header := _SECTION.match(line):
            section, name = header[1].lower(), header[2] or ""
        elif (setting := _SETTING.match(line)) and section in ("remote", "url"):
            key = setting[1].lower()
            if key in ("insteadof", "pushinsteadof"):
                return {}
            if key == "pushurl" or (key == "url" and name not in found):
                found[name] = setting[2].strip('"')
    return found


def _repositories(folder: str) -> Iterator[str]:
    above = Path(folder)
    yield from (str(each) for each in (above, *above.parents) if (each / ".git").exists())
    try:
        with os.scandir(folder) as entries:
            yield from (each.path for each in entries if Path(each.path, ".git").is_dir())
    except OSError:
        return
