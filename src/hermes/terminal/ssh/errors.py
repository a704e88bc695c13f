"""What the messages of `ssh` mean, and what to do next."""

from hermes.core.errors import BackendUnavailable

# The first that fits is told.
CAUSES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "the host key of {host} is not the one that is known",
        "find out why before you connect; then `ssh-keygen -R {host}` forgets the old one",
    ),
    (
        "Host key verification failed",
        "the host key of {host} is not known here",
        "connect once with `ssh {host}` and check the key it shows",
    ),
    (
        "Permission denied",
        "{host} refused the login",
        "check terminal.ssh_user and terminal.ssh_key; a key with a passphrase needs ssh-agent",
    ),
    (
        "Too many authentication failures",
        "{host} refused the login: too many keys were offered",
        "set terminal.ssh_key to the right one",
    ),
    (
        "Could not resolve hostname",
        "there is no machine named {host}",
        "check terminal.ssh_host",
    ),
    (
        "Connection refused",
        "{host} takes no SSH connections on that port",
        "check terminal.ssh_port and that sshd runs there",
    ),
    ("timed out", "{host} does not answer", "check the network and terminal.ssh_host"),
    ("No route to host", "{host} cannot be reached", "check the network and terminal.ssh_host"),
    (
        "Network is unreachable",
        "{host} cannot be reached",
        "check the network and terminal.ssh_host",
    ),
    ("Bad configuration option", "ssh does not take its settings", "check ~/.ssh/config"),
)


def unavailable(host: str, errors: str) -> BackendUnavailable:
    for sign, message, hint in CAUSES:
        if sign in errors:
            return BackendUnavailable(message.format(host=host), hint=hint.format(host=host))
    said = errors.strip().splitlines() or ["no connection came about in time"]
    return BackendUnavailable(
        f"no SSH connection to {host}: {said[-1]}", hint=f"does `ssh {host} true` work?"
    )
