"""How a container is made: the settings, and the arguments for the engine that follow from them."""

from collections.abc import Mapping, Sequence

import msgspec

from hermes.terminal.containers.mounts import Mount

# Standard input is what ties the container to us: when it closes, `cat` ends, and so does the
# container. As first process the shell also takes in orphans where the engine has no `--init`.
MAIN = (
    'exec 3<&0; trap "exit 0" TERM; mkdir -p /workspace 2>/dev/null; '
    "cat <&3 >/dev/null & echo ready; wait"
)

HARDENING = (
    *("--cap-drop", "ALL"),
    *("--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER"),
    *("--security-opt", "no-new-privileges"),
    *("--pids-limit", "256"),
)
TMPFS = (
    *("--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=512m,mode=1777"),
    *("--tmpfs", "/var/tmp:rw,noexec,nosuid,nodev,size=256m,mode=1777"),
    *("--tmpfs", "/run:rw,noexec,nosuid,nodev,size=64m"),
)


class DockerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Each field names the setting it comes from."""

    image: str
    """`terminal.docker_image`."""
    environment: dict[str, str] = {}
    """What the client program sees: `PATH`, `HOME`, `DOCKER_HOST` and the like."""
    task: str = "default"
    """Whose files these are; tasks of one name share what is kept."""
    volumes: tuple[str, ...] = ()
    """`terminal.docker_volumes`."""
    forward_env: dict[str, str] = {}
    """The variables named by `terminal.docker_forward_env`, with their values."""
    workspace: str = ""
    """The folder mounted at /workspace (`terminal.docker_mount_cwd_to_workspace`), or empty."""
    cpu: float = 1
    """`terminal.container_cpu`; 0 is no limit."""
    memory: int = 5120
    """`terminal.container_memory` in MB; 0 is no limit."""
    disk: int = 51200
    """`terminal.container_disk` in MB, where the storage driver can limit it; 0 is no limit."""
    persistent: bool = True
    """`terminal.container_persistent`: /workspace and /root outlive the container."""
    sandbox_dir: str = ""
    """`terminal.sandbox_dir`, never empty when `persistent`."""
    credential_files: tuple[Mount, ...] = ()
    """`terminal.credential_files`, from `containers.credential_mounts`."""
    program: str = ""
    """docker or podman; empty is docker when its engine answers, else podman."""
    network: str = ""
    """The network to join; empty is the engine's default, `none` is none."""


class Image(msgspec.Struct, frozen=True):
    """What an image says about itself."""

    user: str = ""
    workdir: str = ""

    @property
    def as_root(self) -> bool:
        return self.user.partition(":")[0] in ("", "root", "0")


class Picky(msgspec.Struct, frozen=True):
    """An option that some engines cannot take: how they complain, and what goes without it."""

    name: str
    complaints: tuple[str, ...]
    lost: str


PICKY = (
    Picky(
        "--storage-opt",
        ("storage-opt", "storage option", "pquota", "project quota"),
        "the disk of the container is not limited: the engine's storage driver cannot",
    ),
    Picky(
        "--init",
        ("container-init", "docker-init", "catatonit"),
        "the container runs without an init process: the engine has none",
    ),
)


def run_arguments(
    options: DockerOptions,
    *,
    name: str,
    labels: Mapping[str, str],
    mounts: Sequence[Mount],
    workdir: str,
    without: frozenset[str] = frozenset(),
) -> list[str]:
    """The arguments of `docker run`, but for the options named in `without`."""
    optional = {
        "--init": [],
        "--storage-opt": [f"size={options.disk}m"] if options.disk else None,
        "--network": [options.network] if options.network else None,
        "--workdir": [workdir] if workdir else None,
        "--cpus": [f"{options.cpu:g}"] if options.cpu else None,
        "--memory": [f"{options.memory}m"] if options.memory else None,
        "--memory-swap": [f"{options.memory}m"] if options.memory else None,
    }
    chosen = {flag: value for flag, value in optional.items() if flag not in without}
    return [
        *("run", "--rm", "-i", "--pull=never", "--name", name),
        *HARDENING,
        *TMPFS,
        *(word for flag, value in chosen.items() if value is not None for word in (flag, *value)),
        *(word for key, value in labels.items() for word in ("--label", f"{key}={value}")),
        *(word for mount in mounts for word in ("--mount", mount.option())),
        *(word for variable in options.forward_env for word in ("--env", variable)),
        *("--entrypoint", "sh", options.image, "-c", MAIN),
    ]


def seed_arguments(options: DockerOptions, folder: str) -> list[str]:
    """Copy the image's own /root to `folder`, which will then hide it."""
    return [
        *("run", "--rm", "--pull=never", "--network", "none", "--user", "0", *HARDENING),
        *("--mount", Mount(folder, "/hermes-seed").option()),
        *("--entrypoint", "sh", options.image, "-c", "cp -a /root/. /hermes-seed/"),
    ]


def qualified(image: str) -> str:
    """The full name of what Docker would fetch; podman does not guess a registry."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    if "." in first or ":" in first or first == "localhost":
        return image
    return f"docker.io/{image}"
