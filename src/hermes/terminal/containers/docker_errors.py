"""What the engine's complaints mean, and what to do about each."""

import msgspec

from hermes.core.errors import BackendUnavailable


class Cause(msgspec.Struct, frozen=True):
    words: tuple[str, ...]
    """Any of these in the complaint, in lower case."""
    message: str
    hint: str


CAUSES = (
    Cause(
        ("permission denied while trying to connect", "connect: permission denied"),
        "you may not use the {program} engine",
        "join the group `docker` and log in again, or install podman, which needs no rights",
    ),
    Cause(
        (
            "cannot connect to the docker daemon",
            "is the docker daemon running",
            "cannot connect to podman",
            "error during connect",
            "dial unix",
        ),
        "the {program} engine does not run",
        "start it (`sudo systemctl start {program}`, or Docker Desktop), or install podman",
    ),
    Cause(
        ("manifest unknown", "pull access denied", "repository does not exist", "not found: man"),
        "there is no image {image} to be had",
        "check the name in terminal.docker_image; a private one needs `{program} login`",
    ),
    Cause(
        (
            *("no such host", "i/o timeout", "network is unreachable", "dial tcp", "tls handshake"),
            *("proxyconnect", "connection reset", "temporary failure in name resolution"),
        ),
        "the image {image} is not here and cannot be fetched: no connection to its registry",
        "connect to the network, bring it with `{program} load`, or set terminal.docker_image to "
        "one that `{program} images` lists",
    ),
    Cause(
        ("invalid reference format",),
        "{image!r} is not the name of an image",
        "correct terminal.docker_image",
    ),
    Cause(
        ("range of cpus is from",),
        "the machine has fewer processors than the container asks for",
        "lower terminal.container_cpu",
    ),
    Cause(
        ("minimum memory limit",),
        "the container's memory limit is too small",
        "raise terminal.container_memory",
    ),
    Cause(
        ("no space left on device",),
        "the disk is full",
        "free some, for instance with `{program} system prune`",
    ),
    Cause(
        ("executable file not found", 'exec: "sh"', "no such file or directory: oci"),
        "the image {image} has no shell",
        "set terminal.docker_image to an image with a POSIX shell",
    ),
)


def unavailable(program: str, complaint: str, image: str) -> BackendUnavailable:
    """The error for what the engine wrote on standard error."""
    lowered = complaint.lower()
    for cause in CAUSES:
        if any(words in lowered for words in cause.words):
            return BackendUnavailable(
                cause.message.format(program=program, image=image),
                hint=cause.hint.format(program=program, image=image),
            )
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    return BackendUnavailable(
        f"{program} could not make the container: {said or 'it gave no reason'}",
        hint=f"see what `{program} info` and `{program} run --rm {image} true` say",
    )


def not_installed(programs: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"{programs} is not installed",
        hint="install Docker or podman, or set terminal.backend to local or sandbox",
    )
