"""Creation of the execution environment of a session from the `terminal.*` settings."""

import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import msgspec

from hermes.app.extensions import Extensions
from hermes.config.environment import child_environment
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.base import terminal_names
from hermes.core.errors import ConfigError
from hermes.sdk.terminal import BackendContext, TerminalManifest
from hermes.security import (
    CREDENTIAL_STORES,
    RUNS_LATER,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    PathGuard,
)
from hermes.terminal import (
    ExecutionEnvironment,
    Host,
    LocalFiles,
    LocalShell,
    Notify,
    OutputLimits,
    ShellOptions,
    open_boundary,
)
from hermes.util.lazy import bundled_manifest


class SessionWorkspace(msgspec.Struct, frozen=True):
    workplace: ExecutionEnvironment
    guard: PathGuard
    folder: str  #: Where it begins, as the model is told.
    here: bool = True  #: Its files are files of this machine.
    description: str = ""  #: Where it is, for the model; empty for the backends of Hermes itself.


def make_workspace(
    loaded: Loaded,
    home: Home,
    working_folder: Path,
    tell: Notify,
    backend: str = "",
    shared: Sequence[Path] = (),
    *,
    confined: bool = False,
    image: str = "",
    container: Mapping[str, Any] | None = None,
) -> SessionWorkspace:
    """Create the environment of `backend`, by default `terminal.backend`, without starting it.

    `image` replaces the container image of the settings. `container` has fields of `DockerOptions`
    that replace what follows from the settings; other backends than docker do not use it.

    A sandbox can read the `shared` folders. A `confined` one, for everybody but owners, sees no
    other folder of a user.
    """
    if image:
        loaded = _with_image(loaded, image)
    settings = loaded.settings.terminal
    folder = Path(working_folder, Path(settings.cwd).expanduser())
    match backend or settings.backend:
        case "local":
            return _local(loaded, home, folder)
        case "sandbox":
            return _sandbox(loaded, home, folder, shared, confined=confined)
        case "ssh":
            return _ssh(loaded, home)
        case "docker":
            return _docker(loaded, home, folder, tell, container or {})
        case name:
            if manifest := find_terminal(name):
                return _bundled_or_plugin(manifest, loaded, home, tell)
            raise ConfigError(
                f'terminal.backend: expected one of {", ".join(terminal_names())}, found "{name}"',
                hint="`hermes plugins list` shows which plugins are enabled",
            )


def _with_image(loaded: Loaded, image: str) -> Loaded:
    plain = image.removeprefix("docker://")
    terminal = msgspec.structs.replace(
        loaded.settings.terminal,
        docker_image=plain,
        modal_image=plain,
        daytona_image=plain,
        singularity_image=f"docker://{plain}",
    )
    changed = copy(loaded)
    changed.settings = msgspec.structs.replace(loaded.settings, terminal=terminal)
    return changed


def find_terminal(name: str) -> TerminalManifest | None:
    """Return the manifest of a bundled backend or of one that a plugin registered, or None."""
    plugins = Extensions.in_force()
    added = plugins.terminals if plugins else {}
    manifest: TerminalManifest | None = bundled_manifest("terminals", name) or added.get(name)
    return manifest


def _local(loaded: Loaded, home: Home, folder: Path) -> SessionWorkspace:
    settings = loaded.settings.terminal
    if not folder.is_dir():
        raise ConfigError(
            f"terminal.cwd: there is no folder {folder}", hint="hermes config set terminal.cwd ."
        )
    boundary = open_boundary(home, loaded.settings)
    shell = LocalShell(
        child_environment(settings.env_passthrough, loaded.saved),
        folder,
        _limits(loaded),
        ShellOptions(
            init_files=settings.shell_init_files,
            source_bashrc=settings.auto_source_bashrc,
            withheld=frozenset(loaded.saved) - set(settings.env_passthrough),
        ),
        sudo_password=loaded.secret("SUDO_PASSWORD") or "",
        boundary=boundary,
    )
    files = LocalFiles(lambda: shell.cwd, Path.home())
    workplace = ExecutionEnvironment(
        "local",
        shell,
        files,
        protected=lambda: boundary.holds,
        export=shell.export,
        exported_names=shell.exported_names,
        variables=shell.variables,
    )
    return SessionWorkspace(workplace, _guard_here(home, folder), str(folder))


def _sandbox(
    loaded: Loaded, home: Home, folder: Path, shared: Sequence[Path], *, confined: bool
) -> SessionWorkspace:
    from hermes.terminal import DeferredHost  # local sessions do not need it

    settings, guard, user_home = loaded.settings.terminal, _guard_here(home, folder), Path.home()
    if confined:
        guard = msgspec.structs.replace(guard, home=folder)

    def make() -> Host:
        from hermes.terminal import sandbox  # loaded only when chosen

        startup = () if confined else (str(user_home / name) for name in STARTUP_FILES)
        options = sandbox.SandboxOptions(
            workspace=tuple(map(str, guard.workspace)),
            writable=tuple(str(Path(name).expanduser()) for name in settings.sandbox_writable),
            readonly=(*startup, str(home.skills), *map(str, shared)),
            runs_later=RUNS_LATER,
            hidden=(
                *(str(user_home / name) for name in CREDENTIAL_STORES),
                *SYSTEM_CREDENTIALS,
                *map(str, guard.own),
            ),
            network=settings.sandbox_network,
            confined=confined,
        )
        environment = child_environment(settings.env_passthrough, loaded.saved)
        if confined:
            environment = _confined_environment(environment, settings.env_passthrough, folder)
        host: Host = sandbox.SandboxHost(options, environment)
        return host

    return _hosted(loaded, DeferredHost("sandbox", make), guard, str(folder), here=True)


def _confined_environment(
    environment: Mapping[str, str], passthrough: Sequence[str], folder: Path
) -> dict[str, str]:
    """Return the variables for programs of other people than the owner."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in ("LANG", "TERM", "TZ", *passthrough) or name.startswith("LC_")
    }
    # The Python of Hermes comes last: it is there in case the system has none.
    python = Path(sys.base_prefix).resolve() / "bin"
    path = f"{environment.get('PATH') or os.defpath}{os.pathsep}{python}"
    return {**kept, "PATH": path, "HOME": str(folder), "USER": "user", "LOGNAME": "user"}


def _ssh(loaded: Loaded, home: Home) -> SessionWorkspace:
    settings = loaded.settings.terminal
    if not settings.ssh_host:
        raise ConfigError(
            "terminal.backend is ssh, but terminal.ssh_host is not set",
            hint="hermes config set terminal.ssh_host HOST",
        )
    from hermes.terminal import ssh  # loaded only when chosen

    options = ssh.SshOptions(
        host=settings.ssh_host,
        user=settings.ssh_user,
        port=settings.ssh_port,
        key=settings.ssh_key,
        options=settings.ssh_options,
    )
    user = settings.ssh_user or "root"
    there = Path("/root" if user == "root" else f"/home/{user}")
    start = settings.cwd if settings.cwd not in ("", ".") else ""
    guard = PathGuard(there, (Path(start or there),), (there / ".hermes",), here=False)
    host = ssh.SshHost(options, child_environment((), loaded.saved))
    shown, credentials = start or "the home folder", _credentials(loaded, home)
    return _hosted(loaded, host, guard, shown, start=start, isolated=False, credentials=credentials)


def _docker(
    loaded: Loaded, home: Home, folder: Path, tell: Notify, container: Mapping[str, Any]
) -> SessionWorkspace:
    from hermes.terminal import DeferredHost, docker  # loaded only when chosen

    settings = loaded.settings.terminal
    options = docker.DockerOptions(
        image=settings.docker_image,
        forward_env=_forwarded(loaded),
        cpu=settings.container_cpu,
        memory=settings.container_memory,
        persistent=settings.container_persistent,
        sandbox_dir=settings.sandbox_dir or str(home.root / "sandboxes"),
        environment=child_environment((), loaded.saved),
        volumes=settings.docker_volumes,
        workspace=str(folder) if settings.docker_mount_cwd_to_workspace else "",
        disk=settings.container_disk,
        program=settings.container_program,
        network=settings.docker_network,
        credential_files=_credentials(loaded, home),
    )
    options = msgspec.structs.replace(options, **container)
    host = DeferredHost("docker", lambda: docker.DockerHost(options, tell))
    # Inside a container the agent may access everything.
    guard = PathGuard(Path("/root"), (Path("/"),), here=False)
    mounted = settings.docker_mount_cwd_to_workspace
    return _hosted(loaded, host, guard, "/workspace" if mounted else "/root")


def _bundled_or_plugin(
    manifest: TerminalManifest, loaded: Loaded, home: Home, notify: Notify
) -> SessionWorkspace:
    from hermes.terminal import DeferredHost  # local sessions do not need it

    mounts = _credentials(loaded, home)
    own = loaded.raw.get(manifest.name)
    context = BackendContext(
        settings=msgspec.structs.asdict(loaded.settings.terminal),
        own_settings=own if isinstance(own, Mapping) else {},
        secret=lambda name: loaded.secret(name) or "",
        forward_env=_forwarded(loaded),
        environment=child_environment((), loaded.saved),
        storage=Path(loaded.settings.terminal.sandbox_dir or home.root / "sandboxes"),
        credential_mounts=mounts,
        notify=notify,
    )
    return _hosted(
        loaded,
        DeferredHost(manifest.name, lambda: manifest.load()(context)),
        PathGuard(Path(manifest.home), (Path("/"),), here=False),
        manifest.home,
        isolated=manifest.isolated,
        credentials=mounts if manifest.copies_credentials else (),
        description=manifest.place,
    )


def _forwarded(loaded: Loaded) -> dict[str, str]:
    """Return the variables that commands in containers get, with their values."""
    settings = loaded.settings.terminal
    names = (*settings.docker_forward_env, *settings.env_passthrough)
    return {name: value for name in names if (value := loaded.variable(name))}


def _credentials(loaded: Loaded, home: Home) -> Any:
    from hermes.terminal import credential_mounts  # local sessions do not need it

    return credential_mounts(home.root, loaded.settings.terminal.credential_files)


def _hosted(
    loaded: Loaded,
    host: Host,
    guard: PathGuard,
    folder: str,
    *,
    start: str = "",
    here: bool = False,
    isolated: bool = True,
    credentials: Any = (),
    description: str = "",
) -> SessionWorkspace:
    """`credentials` are files to copy if they cannot be mounted."""
    # Local sessions do not need these modules.
    from hermes.terminal import HostFiles, HostShell, SyncedHost

    upload = None
    if not here:
        synced = SyncedHost(host)
        host, upload = synced, synced.upload
        for mount in credentials:
            upload(Path(mount.source), mount.target.replace("/root/", "~/", 1), private=True)
    shell = HostShell(
        host,
        cwd=folder if here else start,
        limits=_limits(loaded),
        lifetime=loaded.settings.terminal.lifetime_seconds,
    )
    workplace = ExecutionEnvironment(
        host.name,
        shell,
        HostFiles(host, shell),
        isolated=isolated,
        export=shell.export,
        exported_names=shell.exported_names,
        variables=shell.variables,
        upload=upload,
    )
    return SessionWorkspace(workplace, guard, folder, here, description)


def _guard_here(home: Home, folder: Path) -> PathGuard:
    own = tuple(dict.fromkeys((home.root, home.default_root)))
    return PathGuard(home=Path.home(), workspace=(folder,), own=own)


def _limits(loaded: Loaded) -> OutputLimits:
    output = loaded.settings.tool_output
    return OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)
