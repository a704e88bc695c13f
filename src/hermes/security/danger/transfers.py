"""What a command reads and sends to other machines: private files, text of strangers, transfers."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from hermes.security.danger.code import (
    RECIPES,
    executed_files,
    original_program,
    recipe_commands,
    record_side_effects,
)
from hermes.security.danger.context import (
    WRITES_LAST,
    ShellContext,
    operands,
    touched_paths,
    written_paths,
)
from hermes.security.danger.secrets import LOOKS_ONLY, PRINTERS, SECRET_PLACES
from hermes.security.danger.system import subcommand
from hermes.security.egress import (
    MAX_SCRIPT_BYTES,
    Flow,
    GitRemotes,
    Payload,
    Transfer,
    code_flow,
    host_of,
    is_loopback,
    is_network_code,
    private_reason,
    read_remotes,
    remote_owner,
)
from hermes.security.paths import PathGuard, is_below
from hermes.security.shell.model import (
    GIVEN,
    SPLIT,
    UNKNOWN,
    CommandTooComplex,
    Invocation,
    ParsedCommand,
)
from hermes.security.shell.wrappers import (
    HOLDS_TEXT,
    SHELLS,
    interpreter_name,
    unfold_command,
    unfold_invocation,
)
from hermes.security.tables import program_tables

DEEPEST = 3  #: How many scripts that start each other are read.
INLINE_LETTERS = program_tables().code_letters

BROWSERS = frozenset({"aria2c", "axel", "lynx", "w3m", "links", "elinks", "lwp-request", "fetch"})
DIALERS = frozenset({
    "nc", "ncat", "netcat", "socat", "telnet", "ssh", "mosh", "ftp", "lftp", "tftp", "sftp",
    "websocat", "wscat", "openssl", "gnutls-cli", "mosquitto_pub", "redis-cli",
})  # fmt: skip
"""These send their input to the host they name."""
COPIERS = frozenset({"scp", "rsync"})
MAILERS = frozenset({
    "mail", "mailx", "mutt", "neomutt", "sendmail", "msmtp", "ssmtp", "swaks", "s-nail",
    "telegram-send", "ntfy", "apprise", "croc", "wormhole", "ffsend", "himalaya",
})  # fmt: skip
TUNNELS = frozenset({"ngrok", "cloudflared", "localtunnel", "lt", "bore", "frpc", "chisel"})
_NO_FILES = {
    "curl",
    "wget",
    "scp",
    "nc",
    "ncat",
    "socat",
    "ftp",
    "openssl",
    "gsutil",
    "aws",
    "mail",
}
FILE_READERS = (PRINTERS - _NO_FILES) | {
    "cp", "mv", "ln", "install", "tar", "bsdtar", "zip", "7z", "gzip", "bzip2", "xz", "zstd", "dd",
    "rsync", "sort", "uniq", "paste", "diff", "split", "tee", "source", ".", "mapfile", "cpio",
}  # fmt: skip
"""A computed word among their arguments is most likely a file."""
RESOLVERS = frozenset({
    "dig", "nslookup", "host", "ping", "ping6", "drill", "kdig", "getent", "resolvectl", "whois",
    "traceroute", "tracepath", "delv",
})  # fmt: skip
"""A name that these look up reaches the name server of its domain."""
_PUBLISHING = {
    "npm": "publish", "pnpm": "publish", "yarn": "publish", "bun": "publish", "cargo": "publish",
    "poetry": "publish", "uv": "publish", "flit": "publish", "hatch": "publish", "twine": "upload",
    "gem": "push", "docker": "push", "podman": "push", "buildah": "push", "nerdctl": "push",
    "skopeo": "copy", "oras": "push", "helm": "push", "huggingface-cli": "upload", "hf": "upload",
    "vercel": "deploy", "netlify": "deploy", "surge": "", "firebase": "deploy", "fly": "deploy",
    "flyctl": "deploy", "wrangler": "deploy publish", "railway": "up", "gsutil": "cp rsync mv",
    "aws": "cp sync mv put-object", "gcloud": "cp rsync scp", "az": "upload upload-batch",
    "azcopy": "copy sync", "s3cmd": "put sync", "mc": "cp mirror pipe", "b2": "upload-file sync",
    "rclone": "copy copyto sync move moveto rcat", "smbclient": "",
}  # fmt: skip
PUBLISHERS = {name: frozenset(verbs.split()) for name, verbs in _PUBLISHING.items()}
"""Subcommands that upload; an empty set means all."""
GH_READS = frozenset({"view", "list", "status", "diff", "checks", "download", "api", "search"})
INSTALLERS = frozenset({
    "apt", "apt-get", "aptitude", "dnf", "yum", "zypper", "apk", "pacman", "snap", "flatpak",
    "brew", "port", "pip", "pip3", "pipx", "uvx", "uv", "conda", "mamba", "micromamba", "gem",
    "cargo", "go", "rustup", "npm", "npx", "pnpm", "yarn", "bun", "composer", "docker", "podman",
})  # fmt: skip
"""A URL in their arguments is fetched."""
TEXT_PROGRAMS = HOLDS_TEXT - INSTALLERS - {"open", "slack", "trans", "claude", "codex", "llm"}
"""A URL in their arguments is text."""
RUNNERS = frozenset({
    "pytest", "py.test", "tox", "nox", "make", "gmake", "just", "task", "npm", "npx", "pnpm",
    "yarn", "bun", "cargo", "go", "java", "mvn", "gradle", "dotnet", "jest", "vitest", "mocha",
    "rake", "bundle", "rspec", "rscript", "julia", "swift", "tsx", "ts-node", "uv", "poetry",
    "pdm", "hatch", "pipenv", "flask", "django-admin", "uvicorn", "gunicorn", "celery", "behave",
    "bats", "pre-commit", "docker", "podman", "cmake", "ctest", "bazel", "ninja", "meson",
})  # fmt: skip
"""These run code of the project, besides shells and interpreters."""

_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^/]*)/")
_AWK_SOCKET = re.compile(r"/inet6?/(?:tcp|udp)/")
_ADDRESS = re.compile(r"localhost\b|\d+\.\d+\.\d+\.\d+|[\w.-]+:\d+(/|\Z)")
_SYSTEM_PROGRAM = re.compile(r"(/usr)?(/local)?/s?bin/")
_LOOKS_LIKE_HOST = re.compile(rf"[\w.{UNKNOWN}-]+(\.|:\d|{UNKNOWN}|/)|localhost\b|\[|:\d")
_REMOTE_FILE = re.compile(r"(?:[\w.+-]+@)?(\[[^\]]+\]|[\w.-]+):(?!//)|rsync://([^/:]+)")
_PROXY = re.compile(r"(?i)(all|https?|ftp)_proxy")


class RequestOptions(msgspec.Struct, frozen=True):
    """Options of a program that makes requests, without their dashes."""

    letters: str  #: Short options with a value.
    valued: frozenset[str]  #: Further long options with a value.
    files: frozenset[str]  #: Their value is a file that is sent.
    bodies: frozenset[str]  #: Their value is sent, or names a file after `@` or `<`.
    hosts: frozenset[str]  #: Their value is a host that gets the request as well.
    unreadable: frozenset[str]  #: Their value is a file with further options or URLs.
    credentials: frozenset[str]  #: Their value is often a variable with a key.


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


CURL = RequestOptions(
    letters="AbcCdDeEFHKmoPQrtTuUwxXyYz",
    valued=_names(
        "request output output-dir max-time connect-timeout retry retry-delay retry-max-time range"
        " write-out cookie-jar dump-header cacert capath cert key limit-rate interface resolve"
        " max-redirs user-agent referer variable netrc-file unix-socket ciphers"
    ),
    files=_names("T upload-file"),
    bodies=_names(
        "d data data-ascii data-binary data-raw data-urlencode json F form form-string url-query"
        " b cookie"
    ),
    hosts=_names(
        "x proxy preproxy socks4 socks4a socks5 socks5-hostname doh-url connect-to dns-servers url"
    ),
    unreadable=_names("K config"),
    credentials=_names("H header u user oauth2-bearer aws-sigv4 proxy-header"),
)
WGET = RequestOptions(
    letters="aoetOTwQPUIADBXlR",
    valued=_names(
        "output-document output-file directory-prefix tries timeout wait quota user-agent referer"
        " method load-cookies save-cookies limit-rate ca-certificate accept reject level domains"
    ),
    files=_names("post-file body-file"),
    bodies=_names("post-data body-data"),
    hosts=_names("e execute base"),
    unreadable=_names("i input-file"),
    credentials=_names("header user password http-user http-password"),
)


class ParsedRequest(msgspec.Struct):
    """The options of a request as they were given."""

    given: list[tuple[str, str]]
    operands: list[str]

    def values(self, names: Iterable[str]) -> list[str]:
        wanted = set(names)
        return [value for name, value in self.given if name in wanted]


def parse_request(words: Iterable[str], options: RequestOptions) -> ParsedRequest:
    result, rest = ParsedRequest([], []), list(words)
    valued = frozenset().union(
        options.valued, options.files, options.bodies, options.hosts, options.unreadable,
        options.credentials,
    )  # fmt: skip
    while rest:
        word = rest.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            name = name.removeprefix("expand-")
            if not equals and name in valued:
                value = rest.pop(0) if rest else ""
            result.given.append((name, value))
        elif word.startswith("-") and len(word) > 1 and word != "--":
            position = next((i for i, c in enumerate(word[1:], 1) if c in options.letters), 0)
            result.given += [(letter, "") for letter in word[1 : position or None]]
            if position:
                value = word[position + 1 :] or (rest.pop(0) if rest else "")
                result.given.append((word[position], value))
        elif word != "--":
            result.operands.append(word)
    return result


class CommandFlow:
    """Finds what one command reads and sends. `held`: its input stays open for later calls."""

    def __init__(
        self, guard: PathGuard, folder: str, remotes: GitRemotes, *, held: bool = False
    ) -> None:
        self._guard, self._remotes, self._held = guard, remotes, held
        self._context = ShellContext(guard, folder)
        self._private: dict[str, None] = {}
        self._untrusted: dict[str, None] = {}
        self._transfers: list[Transfer] = []
        self._runs = False

    def read(self, command: str) -> Flow:
        self._read_text(command, 0)
        written = [name for name, text in self._context.texts.items() if is_network_code(text)]
        return Flow(
            tuple(self._private),
            tuple(self._untrusted),
            tuple(self._transfers),
            tuple(written),
            self._runs,
        )

    def _read_text(self, command: str, depth: int) -> None:
        self._follow(partial(unfold_command, command, self._context.variables), depth)

    def _follow(self, parse: Callable[[], ParsedCommand], depth: int) -> None:
        try:
            parsed = parse()
        except (CommandTooComplex, RecursionError):
            self._send("", Payload.CODE, "what the command sends")
            return
        for invocation in parsed.invocations:
            self._read_invocation(invocation, depth)
            original = original_program(invocation, self._context)
            if original is not None and depth < DEEPEST:
                self._follow(partial(unfold_invocation, original), depth + 1)
            record_side_effects(invocation, self._context)

    def _read_invocation(self, invocation: Invocation, depth: int) -> None:
        for path in self._read_paths(invocation):
            real = self._context.real(path, invocation)
            if not real or (reason := self._private_reason(real)):
                self._private[reason if real else "a file whose name the command computes"] = None
        for redirect in invocation.redirects:
            if found := _SOCKET.match(redirect.target):
                self._send(_known(found[1]), Payload.DATA, "the output of a command")
        if not invocation.name:
            return
        self._runs = self._runs or _runs_project_code(invocation)
        self._read_program(invocation)
        if depth < DEEPEST:
            self._read_scripts(invocation, depth)

    def _send(self, host: str, payload: Payload, what: str, url: str = "") -> None:
        self._transfers.append(Transfer(host, payload, what, url))

    # What it reads.

    def _private_reason(self, real: str) -> str:
        return real if SECRET_PLACES.search(real) else private_reason(real, self._guard)

    def _is_at_work(self, invocation: Invocation) -> bool:
        """Return whether the program runs in the workspace."""
        folder = self._context.real(".", invocation)
        roots = (self._guard.resolve(str(root), "/") for root in self._guard.workspace)
        return any(is_below(folder, root) for root in roots)

    def _read_paths(self, invocation: Invocation) -> Iterator[str]:
        """Yield the files whose content the program may read."""
        name = invocation.name
        yield from (
            each.target
            for each in invocation.redirects
            if each.operator == "<" and not each.target.startswith(GIVEN)
        )
        finds = name in ("find", "fd") and (invocation.piped or "exec" in invocation.text)
        if not name or (name in LOOKS_ONLY and not finds):
            return
        written = {each.target for each in invocation.redirects if each.writes}
        if name in WRITES_LAST:  # others read what they write
            written |= set(written_paths(invocation))
        shows = name in FILE_READERS
        yield from (
            word
            for word in invocation.arguments
            if (word == "~" and word not in written) or (word.startswith(UNKNOWN) and shows)
        )
        for path in touched_paths(invocation):
            # The latter two are seldom files: a part of a URL, and any computed word.
            if path not in written and not path.startswith(("//", UNKNOWN)):
                yield path
        if (invocation.arguments or name in RECIPES) and not self._is_at_work(invocation):
            yield "."

    def _read_scripts(self, invocation: Invocation, depth: int) -> None:
        """Read the code that the program runs: inline, from its input, or from a file."""
        name = interpreter_name(invocation.name)
        letters = INLINE_LETTERS.get(name)
        if letters is not None:
            self._read_code(" ".join((*invocation.arguments, invocation.stdin)))
            for source in invocation.upstream:
                self._read_code(source.text)
        if invocation.name in RECIPES:
            for file in RECIPES[invocation.name]:
                if text := self._text_of(self._context.real(file, invocation)):
                    self._read_text(recipe_commands(text, invocation), depth + 1)
        for real in executed_files(invocation, self._context):
            text = self._text_of(real)
            is_shell = invocation.name in SHELLS or invocation.name in ("source", ".")
            if is_shell or re.match(r"#!.*\b(ba|z|k|da)?sh\b", text):
                self._read_text(text, depth + 1)
            else:
                self._read_code(text)

    def _read_code(self, text: str) -> None:
        flow = code_flow(text, self._guard, self._context.folder)
        self._private.update(dict.fromkeys(flow.private))
        self._untrusted.update(dict.fromkeys(flow.untrusted))
        self._transfers += flow.transfers

    def _text_of(self, real: str) -> str:
        """Return a script that the command wrote, or one of this machine."""
        if written := self._context.texts.get(real):
            return written
        path = Path(real)
        if not self._guard.here or not real.startswith("/") or not path.is_file():
            return ""
        try:
            if path.stat().st_size > MAX_SCRIPT_BYTES:
                return ""
            text = path.read_bytes()
        except OSError:
            return ""
        return "" if b"\0" in text[:1_024] else text.decode("utf-8", "replace")

    # What it sends.

    def _read_program(self, invocation: Invocation) -> None:
        name = invocation.name
        if (reader := _READERS.get(name)) is not None:
            reader(self, invocation)
        elif name in MAILERS or name in TUNNELS:
            self._send("", Payload.DATA, f"what {name} sends")
        elif name in PUBLISHERS:
            verbs = PUBLISHERS[name]
            if not verbs or not verbs.isdisjoint(operands(invocation)):
                self._send("", Payload.DATA, "the published files")
        elif name in RESOLVERS:
            self._read_lookup(invocation)
        elif name not in TEXT_PROGRAMS:
            self._read_urls(invocation)
        elif _AWK_SOCKET.search(invocation.text):
            self._send("", Payload.DATA, f"what {name} sends")

    def _read_lookup(self, invocation: Invocation) -> None:
        """A name that is looked up may spell data."""
        if _is_computed(invocation):
            self._send("", Payload.DATA, "a name that the command computes")
            return
        for word in operands(invocation):
            if re.search(r"[a-z]\.[a-z]", word, re.IGNORECASE) and not word.startswith("@"):
                self._send(word.lower().rstrip("."), Payload.QUERY, "the name")

    def _read_urls(self, invocation: Invocation) -> None:
        """URLs in the arguments of any other program."""
        name = invocation.name
        foreign = "/" in invocation.words[0] and not _SYSTEM_PROGRAM.match(invocation.words[0])
        for word in invocation.arguments:
            is_url = "://" in word and (" " not in word or UNKNOWN in word)
            if not is_url and not (foreign and _ADDRESS.match(word)):
                continue
            url = re.sub(r"^(--?[\w-]+=|\w+\+)", "", word)
            if _is_computed(invocation):
                self._send(_host(url), Payload.DATA, "the output of a command")
            elif name in BROWSERS or name in INSTALLERS:
                self._fetch(url)
            else:
                self._send(_host(url), Payload.CODE, f"what {name} sends")
            if invocation.name in BROWSERS:
                self._show_text(_host(word))

    def _fetch(self, url: str) -> None:
        url = url if "://" in url else f"http://{url}"
        payload = Payload.QUERY if "?" in url else Payload.FETCH
        self._send(_host(url), payload, "the request", url)

    def _show_text(self, host: str) -> None:
        if not is_loopback(host):
            self._untrusted[host or "the network"] = None

    def read_request(self, invocation: Invocation, options: RequestOptions) -> None:
        request = parse_request(invocation.arguments, options)
        urls = [*request.operands, *request.values(("url",))]
        urls = [word for word in urls if _LOOKS_LIKE_HOST.match(word) or "://" in word] or urls[:1]
        extra = [value for value in request.values(options.hosts - {"url"}) if value]
        extra += [value for name, value in invocation.assignments if _PROXY.fullmatch(name)]
        unreadable = request.values(options.unreadable)
        payload, what = self._request_payload(invocation, request, options)
        if unreadable:
            self._send("", max(payload, Payload.DATA), "the request")
        for url in urls:
            host = _host(url)
            self._show_text(host)
            if payload is Payload.FETCH:
                self._fetch(url)
            else:
                self._send(host, payload, what)
        for value in extra:
            # `--connect-to` and `-e` have the host inside: the last part that looks like one.
            self._send(_connect_host(value), max(payload, Payload.QUERY), what)

    def _request_payload(
        self, invocation: Invocation, request: ParsedRequest, options: RequestOptions
    ) -> tuple[Payload, str]:
        if files := request.values(options.files):
            return Payload.DATA, f"the file {files[0]}".replace(UNKNOWN, "…")
        bodies = request.values(options.bodies)
        for body in bodies:
            if re.match(r"[@<]|[\w.\[\]-]*(=[@<]|@)", body):
                file = re.split("[@<]", body, maxsplit=1)[1].partition(";")[0]
                return Payload.DATA, f"the file {file}".replace(UNKNOWN, "…")
        keys = request.values(options.credentials)
        computed = [*request.operands, *(value for _, value in request.given)]
        if any(UNKNOWN in word for word in computed if word not in keys):
            return Payload.DATA, "what the command computes"
        if invocation.fed_by or invocation.drawn or _is_filled(invocation):
            return Payload.DATA, "the output of a command"
        if bodies or any(UNKNOWN in key for key in keys):
            return Payload.QUERY, "the request"
        return Payload.FETCH, "the request"

    def read_httpie(self, invocation: Invocation) -> None:
        words = [word for word in operands(invocation) if not word.isupper()]
        url, *items = words or [""]
        url = f"localhost{url}" if url.startswith((":", "/")) else url
        has_file = any(re.search(r"@|:=@|=@", item) for item in items)
        piped = bool(invocation.upstream) or any(r.operator == "<" for r in invocation.redirects)
        self._show_text(_host(url))
        if has_file or piped or _is_computed(invocation):
            self._send(_host(url), Payload.DATA, "the output of a command")
        elif items:
            self._send(_host(url), Payload.QUERY, "the request")
        else:
            self._fetch(url)

    def read_dialer(self, invocation: Invocation) -> None:
        """Programs that connect and send their input."""
        name, words = invocation.name, operands(invocation)
        if name == "openssl":
            if "s_client" not in words:
                return
            words = [word for word in words if _LOOKS_LIKE_HOST.match(word)] or [""]
        fed = bool(invocation.upstream or invocation.drawn or invocation.fed_by)
        fed = fed or any(each.operator == "<" for each in invocation.redirects)
        is_open = self._held and name not in ("ssh", "mosh", "redis-cli")
        sends = fed or is_open or name in ("socat", "tftp", "sftp") or _is_computed(invocation)
        host = "" if name in ("socat", "redis-cli") else _host(words[0]) if words else ""
        what = "the input of " + name
        self._send(host, Payload.DATA if sends else Payload.QUERY, what)

    def read_copy(self, invocation: Invocation) -> None:
        """scp and rsync: what they copy to another machine, or from one."""
        named = operands(invocation)
        remote = [_REMOTE_FILE.match(word) for word in named]
        if named and (found := remote[-1]):
            self._send(_known(found[1] or found[2] or ""), Payload.DATA, f"the file {named[0]}")
        elif any(remote) or _is_computed(invocation):
            found = next(filter(None, remote), None)
            host = _known(found[1] or found[2] or "") if found else ""
            payload = Payload.DATA if _is_computed(invocation) else Payload.FETCH
            self._send(host, payload, "the request")

    def read_git(self, invocation: Invocation) -> None:
        words = subcommand(invocation)
        verb = words[0] if words else ""
        named = [word for word in words[1:] if not word.startswith("-")]
        if verb in ("push", "send-pack"):
            self._read_push(invocation, named)
        elif verb == "send-email":
            self._send("", Payload.DATA, "the patches")
        elif verb in ("clone", "fetch", "pull", "ls-remote", "submodule", "archive", "remote"):
            for word in (word for word in words[1:] if _is_remote_url(word)):
                if _is_computed(invocation):
                    self._send(_host(word), Payload.DATA, "the output of a command")
                elif verb != "remote":
                    self._send(_host(word), Payload.FETCH, "the request", word)
                if verb != "remote" and remote_owner(word) not in self._remotes.owners:
                    self._untrusted[f"the repository {word}".replace(UNKNOWN, "…")] = None

    def _read_push(self, invocation: Invocation, named: list[str]) -> None:
        target = named[0] if named else "origin"
        if not _is_remote_url(target) and "/" not in target:
            folder = self._context.real(".", invocation) or self._context.folder
            remotes: dict[str, str] = {}
            for each in (Path(folder), *Path(folder).parents):
                if (each / ".git").exists():
                    remotes = read_remotes(str(each))
                    break
            target = remotes.get(target, "")
        replaced = "insteadof" in invocation.text.lower()
        owner = remote_owner(target)
        if owner in self._remotes.owners and not replaced:
            return
        if target and not owner[0] and not replaced:
            return  # a folder of this machine
        self._send("" if replaced else owner[0], Payload.DATA, "the pushed commits")

    def read_gh(self, invocation: Invocation) -> None:
        words = operands(invocation)
        text = invocation.text
        writes = re.search(
            r"(^| )(-X ?(POST|PUT|PATCH)|--method|-f|-F|--(raw-)?field|--input)", text
        )
        if words[:1] == ["gist"] and not GH_READS & set(words):
            self._send("", Payload.DATA, "the gist")
        elif (words[:1] == ["api"] and writes) or words[:2] == ["release", "upload"]:
            self._send("api.github.com", Payload.DATA, "the request")
        elif GH_READS & set(words):
            self._untrusted["github.com"] = None


_READERS: dict[str, Callable[[CommandFlow, Invocation], None]] = {
    "curl": lambda flow, invocation: flow.read_request(invocation, CURL),
    "wget": lambda flow, invocation: flow.read_request(invocation, WGET),
    "git": CommandFlow.read_git,
    "gh": CommandFlow.read_gh,
    **dict.fromkeys(("http", "https", "xh", "xhs", "curlie"), CommandFlow.read_httpie),
    **dict.fromkeys(COPIERS, CommandFlow.read_copy),
    **dict.fromkeys(DIALERS, CommandFlow.read_dialer),
}


def _known(host: str) -> str:
    return "" if UNKNOWN in host or SPLIT in host else host.strip("[]").lower()


def _host(url: str) -> str:
    return _known(host_of(url))


def _connect_host(value: str) -> str:
    """Return the host of `http_proxy=http://h:1`, of `a:80:h:1` and of `http://h:1`."""
    if found := re.search(r"\w+://", value):
        return _host(value[found.start() :])
    pieces = [piece for piece in re.split(r"[:=,]", value) if piece and not piece.isdigit()]
    return _known(pieces[-1]) if pieces else ""


def _runs_project_code(invocation: Invocation) -> bool:
    name, first = invocation.name, invocation.words[0]
    if name in RUNNERS or name in SHELLS or name in ("source", "."):
        return True
    return interpreter_name(name) in INLINE_LETTERS or (
        "/" in first and not _SYSTEM_PROGRAM.match(first)
    )


def _is_filled(invocation: Invocation) -> bool:
    """Return whether other programs fill in its arguments."""
    return not {"xargs", "parallel", "find", "fd"}.isdisjoint(invocation.via)


def _is_computed(invocation: Invocation) -> bool:
    """Return whether an argument comes from a file or from another program."""
    return bool(
        invocation.fed_by
        or invocation.drawn
        or _is_filled(invocation)
        or any(UNKNOWN in word for word in invocation.arguments)
    )


def _is_remote_url(word: str) -> bool:
    if word.startswith("file://"):
        return False
    return "://" in word or bool(re.match(r"(?:[\w.+-]+@)?[\w.-]+:(?!\d+\Z)", word))
