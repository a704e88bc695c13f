"""Creation of the execution environment of a session from the `terminal.*` settings."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.config.environment import child_environment
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError
from hermes.security import CREDENTIAL_STORES, STARTUP_FILES, SYSTEM_CREDENTIALS, PathGuard
from hermes.terminal import (
    ExecutionEnvironment,
    Host,
    LocalFiles,
    LocalShell,
    Notify,
    OutputLimits,
    Running,
    ShellOptions,
)

T = TypeVar("T", bound=msgspec.Struct)


class SessionWorkspace(msgspec.Struct, frozen=True):
    workplace: ExecutionEnvironment
    guard: PathGuard
    folder: str  #: Where it begins, as the model is told.
    here: bool = True  #: Its files are files of this machine.


def make_workspace(
    loaded: Loaded,
    home: Home,
    working_folder: Path,
    tell: Notify,
    backend: str = "",
    shared: Sequence[Path] = (),
) -> SessionWorkspace:
    """Create the environment of `backend`, by default `terminal.backend`, without starting it. A
    sandbox can read the `shared` folders in the home of Hermes."""
    settings = loaded.settings.terminal
    folder = Path(working_folder, Path(settings.cwd).expanduser())
    name = backend or settings.backend
    if name == "sandbox":
        return _sandbox(loaded, home, folder, shared)
    return MAKERS[name](loaded, home, folder, tell)


def _local(loaded: Loaded, home: Home, folder: Path, _tell: Notify) -> SessionWorkspace:
    settings = loaded.settings.terminal
    if not folder.is_dir():
        raise ConfigError(
            f"terminal.cwd: there is no folder {folder}", hint="hermes config set terminal.cwd ."
        )
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
    )
    files = LocalFiles(lambda: shell.cwd, Path.home())
    workplace = ExecutionEnvironment(
        "local", shell, files, export=shell.export, exported_names=shell.exported_names
    )
    return SessionWorkspace(workplace, _guard_here(home, folder), str(folder))


def _sandbox(loaded: Loaded, home: Home, folder: Path, shared: Sequence[Path]) -> SessionWorkspace:
    settings, guard = loaded.settings.terminal, _guard_here(home, folder)

    def make() -> Host:
        from hermes.terminal import sandbox  # loaded only when chosen

        options = sandbox.SandboxOptions(
            workspace=(str(folder),),
            writable=tuple(str(Path(name).expanduser()) for name in settings.sandbox_writable),
            readonly=(*_in(guard.home, STARTUP_FILES), str(home.skills), *map(str, shared)),
            hidden=(
                *_in(guard.home, CREDENTIAL_STORES),
                *SYSTEM_CREDENTIALS,
                *map(str, guard.own),
            ),
            network=settings.sandbox_network,
        )
        environment = child_environment(settings.env_passthrough, loaded.saved)
        host: Host = sandbox.SandboxHost(options, environment)
        return host

    return _hosted(loaded, _UnmadeHost("sandbox", make), guard, str(folder), here=True)


class _UnmadeHost:
    """A host that is created when it is first used: most sessions run no command."""

    def __init__(self, name: str, make: Callable[[], Host]) -> None:
        self.name, self._make = name, make

    @cached_property
    def _host(self) -> Host:
        return self._make()

    async def open(self) -> None:
        await self._host.open()

    async def start(self, argv: Sequence[str], **streams: Any) -> Running:
        return await self._host.start(argv, **streams)

    async def close(self) -> None:
        if "_host" in vars(self):
            await self._host.close()


def _ssh(loaded: Loaded, home: Home, _folder: Path, _tell: Notify) -> SessionWorkspace:
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
    credentials = _credentials(loaded, home)
    return _hosted(
        loaded,
        host,
        guard,
        start or "the home folder",
        start=start,
        isolated=False,
        credentials=credentials,
    )


def _docker(loaded: Loaded, home: Home, folder: Path, tell: Notify) -> SessionWorkspace:
    from hermes.terminal import docker  # loaded only when chosen

    settings = loaded.settings.terminal
    options = _container(
        loaded,
        home,
        docker.DockerOptions,
        image=settings.docker_image,
        environment=child_environment((), loaded.saved),
        volumes=settings.docker_volumes,
        workspace=str(folder) if settings.docker_mount_cwd_to_workspace else "",
        disk=settings.container_disk,
        program=settings.container_program,
        network=settings.docker_network,
        credential_files=_credentials(loaded, home),
    )
    host = _deferred_host("docker", lambda lifeline: docker.DockerHost(options, lifeline, tell))
    mounted = settings.docker_mount_cwd_to_workspace
    return _hosted(loaded, host, INSIDE, "/workspace" if mounted else "/root")


def _singularity(loaded: Loaded, home: Home, _folder: Path, tell: Notify) -> SessionWorkspace:
    from hermes.terminal import singularity  # loaded only when chosen
    from hermes.terminal.remote import EngineOptions

    options = _container(
        loaded,
        home,
        EngineOptions,
        image=loaded.settings.terminal.singularity_image,
        environment=child_environment((), loaded.saved),
        credential_files=_credentials(loaded, home),
    )
    host = _deferred_host(
        "singularity", lambda lifeline: singularity.SingularityHost(options, lifeline, tell)
    )
    return _hosted(loaded, host, INSIDE, "/root")


def _modal(loaded: Loaded, home: Home, _folder: Path, tell: Notify) -> SessionWorkspace:
    from hermes.terminal import modal  # loaded only when chosen

    settings = loaded.settings.terminal
    options = _container(
        loaded,
        home,
        modal.ModalOptions,
        image=settings.modal_image,
        lifetime=int(settings.lifetime_seconds),
        token_id=loaded.secret("MODAL_TOKEN_ID") or "",
        token_secret=loaded.secret("MODAL_TOKEN_SECRET") or "",
    )
    host = modal.ModalHost(options, tell)
    return _hosted(loaded, host, INSIDE, "/root", credentials=_credentials(loaded, home))


def _daytona(loaded: Loaded, home: Home, _folder: Path, tell: Notify) -> SessionWorkspace:
    from hermes.terminal import daytona  # loaded only when chosen

    options = _container(
        loaded,
        home,
        daytona.DaytonaOptions,
        image=loaded.settings.terminal.daytona_image,
        disk=loaded.settings.terminal.container_disk,
        api_key=loaded.secret("DAYTONA_API_KEY") or "",
    )
    host = daytona.DaytonaHost(options, tell)
    return _hosted(loaded, host, INSIDE, "/root", credentials=_credentials(loaded, home))


MAKERS: dict[str, Callable[[Loaded, Home, Path, Notify], SessionWorkspace]] = {
    "local": _local,
    "ssh": _ssh,
    "docker": _docker,
    "singularity": _singularity,
    "modal": _modal,
    "daytona": _daytona,
}

INSIDE = PathGuard(Path("/root"), (Path("/"),), here=False)
"""Inside a container the agent may access everything."""


def _container(loaded: Loaded, home: Home, kind: type[T], **more: Any) -> T:
    """Return the options of a container: the common ones and `more`."""
    settings = loaded.settings.terminal
    shared = {
        "forward_env": {
            variable: value
            for variable in (*settings.docker_forward_env, *settings.env_passthrough)
            if (value := loaded.variable(variable))
        },
        "cpu": settings.container_cpu,
        "memory": settings.container_memory,
        "persistent": settings.container_persistent,
        "sandbox_dir": settings.sandbox_dir or str(home.root / "sandboxes"),
    }
    known = {field.name for field in msgspec.structs.fields(kind)}
    return kind(**{key: value for key, value in {**shared, **more}.items() if key in known})


def _deferred_host(name: str, make: Callable[[Any], Host]) -> Host:
    from hermes.terminal.remote import DeferredHost  # local sessions do not need it

    return DeferredHost(name, make)


def _credentials(loaded: Loaded, home: Home) -> Any:
    from hermes.terminal.remote import credential_mounts  # local sessions do not need it

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
) -> SessionWorkspace:
    """`credentials` are files to copy if they cannot be mounted."""
    # Local sessions do not need these modules.
    from hermes.terminal.host.files import HostFiles
    from hermes.terminal.host.shell import HostShell
    from hermes.terminal.remote import SyncedHost

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
        upload=upload,
    )
    return SessionWorkspace(workplace, guard, folder, here)


@cache
def _in(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(folder / name) for name in names)


def _guard_here(home: Home, folder: Path) -> PathGuard:
    own = tuple(dict.fromkeys((home.root, home.default_root)))
    return PathGuard(home=Path.home(), workspace=(folder,), own=own)


def _limits(loaded: Loaded) -> OutputLimits:
    output = loaded.settings.tool_output
    return OutputLimits(output.max_bytes, output.max_lines, output.max_line_length)
