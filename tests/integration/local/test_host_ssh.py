"""The command line of `ssh`, without a server."""

import os
import shutil
import subprocess

import pytest

from hermes.core.errors import BackendUnavailable
from hermes.terminal.ssh import SshHost, SshOptions, remote_command, ssh_unavailable

ODD = [
    "printf", "<%s>", "a b", "it's", 'say "x"', "new\nline", "\\n\\\\", "$HOME `x` !!", "",
    "é\udcff", "~", "*",
]  # fmt: skip


def test_arguments_arrive_whatever_the_login_shell_is() -> None:
    expected = b"".join(b"<%s>" % os.fsencode(word) for word in ODD[2:])
    found = [shell for shell in ("sh", "bash", "zsh", "fish", "tcsh") if shutil.which(shell)]
    assert "sh" in found
    for shell in found:
        done = subprocess.run(
            [shell, "-c", os.fsencode(remote_command(ODD))], capture_output=True, check=False
        )
        assert done.stdout == expected, (shell, done.stderr)


@pytest.mark.parametrize(
    ("host", "user"),
    [("-oProxyCommand=x", ""), ("host", "-l"), ("a b", ""), ("host\n", ""), ("", "me")],
)
def test_invalid_host_names_are_refused(host: str, user: str) -> None:
    with pytest.raises(BackendUnavailable):
        SshHost(SshOptions(host, user), {})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ssh: Could not resolve hostname h: Name or service not known", "no machine named h"),
        ("ssh: connect to host h port 22: Connection timed out", "h does not answer"),
        ("me@h: Permission denied (publickey).", "h refused the login"),
        ("kex_exchange_identification: odd", "no SSH connection to h: kex_exchange"),
        ("", "no connection came about in time"),
    ],
)
def test_messages_of_ssh_are_explained(said: str, told: str) -> None:
    error = ssh_unavailable("h", said)
    assert told in str(error)
    assert error.hint
