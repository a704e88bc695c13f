"""Programs of this machine: what is lost without each, and what the chosen backend needs."""

from pathlib import Path
from typing import NamedTuple

from hermes.app.doctor.findings import Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config.home import tilde
from hermes.terminal.sandbox import SANDBOX_PROBE, is_installed, probe_program


class Program(NamedTuple):
    name: str
    lost: str
    """What does not work without it."""
    package: str


USEFUL = (
    Program("git", "no checkpoints, no undo of skills, no worktrees, no plugins from repositories",
            "git"),
    Program("rg", "searching files is slower", "ripgrep"),
    Program("bash", "commands run in plain sh", "bash"),
)  # fmt: skip

ENGINES = ("docker", "podman")
NEEDED = {
    "sandbox": (("bwrap",), "bubblewrap"),
    "ssh": (("ssh",), "openssh-client"),
    "docker": (ENGINES, "docker.io or podman"),
    "singularity": (("apptainer", "singularity"), "apptainer"),
}
"""Programs of a backend, of which one is enough, and what to install."""
CLOUD_KEYS = {
    "modal": ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
    "daytona": ("DAYTONA_API_KEY",),
}


def useful(_: Scene) -> Found:
    missing = [each for each in USEFUL if not is_installed(each.name)]
    return [
        warning(f"{each.name} is not installed: {each.lost}", f"install {each.package}")
        for each in missing
    ] or [fine(f"{', '.join(each.name for each in USEFUL)} are there")]


def backend(scene: Scene) -> Found:
    """What `terminal.backend` needs."""
    settings = scene.settings.terminal
    name = settings.backend
    programs, package = NEEDED.get(name, ((), ""))
    if name == "docker" and settings.container_program:
        programs = (settings.container_program,)
    there = [each for each in programs if is_installed(each)]
    if programs and not there:
        text = f"terminal.backend is {name}, but {' and '.join(programs)} are not installed"
        if len(programs) == 1:
            text = f"terminal.backend is {name}, but {programs[0]} is not installed"
        return [problem(text, f"install {package}, or: hermes config set terminal.backend local")]
    found = [*_engine(name, there), *_ssh(scene), *_cloud(scene), *_folder(scene)]
    return found or [fine(f"commands run in {name}")]


def _engine(name: str, there: list[str]) -> Found:
    """Whether the container engine answers, or bubblewrap may make a sandbox here."""
    if name == "docker":
        faults = {program: probe_program([program, "ps", "-q"]) for program in there}
        if all(faults.values()):
            program, why = next(iter(faults.items()))
            text = f"{program} is installed but does not answer: {why}"
            return [problem(text, f"start it, and see what `{program} info` says")]
    if name == "sandbox" and (why := probe_program(SANDBOX_PROBE)):
        text = f"bubblewrap cannot make a sandbox here: {why}"
        return [problem(text, "allow user namespaces, or choose another terminal.backend")]
    return []


def _ssh(scene: Scene) -> Found:
    settings = scene.settings.terminal
    if settings.backend != "ssh":
        return []
    if not settings.ssh_host:
        return [problem("terminal.ssh_host is not set", "hermes config set terminal.ssh_host HOST")]
    key = Path(settings.ssh_key).expanduser()
    if not settings.ssh_key:
        return []
    if not key.is_file():
        text = f"terminal.ssh_key: there is no file {tilde(key)}"
        return [problem(text, "hermes config set terminal.ssh_key FILE")]
    if key.stat().st_mode & 0o077:
        text = f"others can read {tilde(key)}, so ssh will not use it"
        return [problem(text, f"chmod 600 {tilde(key)}")]
    return []


def _cloud(scene: Scene) -> Found:
    name = scene.settings.terminal.backend
    return [
        problem(f"terminal.backend is {name}, but {key} is not set", f"hermes config set {key} KEY")
        for key in CLOUD_KEYS.get(name, ())
        if not scene.loaded.variable(key)
    ]


def _folder(scene: Scene) -> Found:
    settings = scene.settings.terminal
    folder = Path(settings.cwd).expanduser()
    if settings.backend not in ("local", "sandbox") or folder.is_dir():
        return []
    text = f"terminal.cwd: there is no folder {settings.cwd}"
    return [problem(text, "hermes config set terminal.cwd .")]
