"""Shells and programs connected to the network."""

import re

from hermes.security.danger.rule import Rule, always, says, says_exactly
from hermes.security.danger.scene import Scene
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import Invocation

_CONNECTS = frozenset({
    "nc", "ncat", "netcat", "socat", "telnet", "openssl", "curl", "websocat", "nc.traditional",
    "nc.openbsd", "cryptcat",
})  # fmt: skip
_SPEAKERS = SHELLS | {"script", "python", "python3", "perl"}
_SOCKET = re.compile(r"/dev/(tcp|udp)/")


def network_shell(invocation: Invocation, _scene: Scene) -> bool:
    targets = [redirect.target for redirect in invocation.redirects]
    return any(_SOCKET.match(path) for path in (*targets, *invocation.arguments))


def shell_output_sent(invocation: Invocation, _scene: Scene) -> bool:
    """`sh -i 2>&1 | nc host port`."""
    if invocation.name not in _CONNECTS:
        return False
    return any(source.name in _SPEAKERS for source in invocation.upstream)


KIND, SHELL = "network shell", "connects a shell to the network"
RULES = (
    Rule(KIND, SHELL, "", network_shell),
    Rule(KIND, SHELL, "", shell_output_sent),
    Rule(
        KIND,
        SHELL,
        "nc ncat netcat nc.traditional nc.openbsd cryptcat",
        says(r"(^|\s)-\w*[ec]\b|--sh-exec|--exec|--lua-exec"),
    ),
    Rule(
        KIND,
        "connects a program to the network",
        "socat websocat",
        says(r"\b(exec|system|shell|cmd):|sh-c:"),
    ),
    Rule(
        KIND,
        SHELL,
        "gs-netcat pwncat msfconsole msfvenom chisel telnetd rshd tmate ttyd gotty shellinabox",
        always,
    ),
    Rule(KIND, "shows a terminal on another machine", "xterm", says(r"-display\s+\S*\d+\.\d+")),
    Rule(
        KIND,
        "opens this machine from outside",
        "ssh autossh",
        says_exactly(r"(^|\s)-\w*R\s*\S*\d+:\S+:22\b"),
    ),
)
