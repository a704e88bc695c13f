"""Slash commands about the project a session works on: its changes, commits, further folders."""

import ast
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.agent import Agent
from hermes.app.commands import CommandCall
from hermes.app.git import UserGit
from hermes.app.prompt_commands import bundled_prompt, fill_arguments
from hermes.app.workspace import SessionWorkspace
from hermes.config.home import tilde
from hermes.core.cancel import CancelToken
from hermes.core.errors import UsageError
from hermes.core.events import TurnFinished
from hermes.core.messages import Message, User
from hermes.store import GitCommandFailed
from hermes.terminal import CommandResult
from hermes.util.text import many

GIT_SECONDS = 60.0  #: Longest run of git, including the hooks of the repository.
MAX_DIFF_BYTES = 60_000
MAX_STATUS_LINES = 50
MAX_SUBJECT = 72


class SessionGit:
    """git where a session works, run like the commands of the agent: with the same limits, and
    with the hooks of the repository."""

    def __init__(self, place: SessionWorkspace) -> None:
        self._shell, self._folder = place.workplace.shell, place.folder

    async def run(self, *arguments: str) -> CommandResult:
        return await self._shell.run(
            shlex.join(("git", "-c", "core.quotepath=off", *arguments)),
            timeout=GIT_SECONDS,
            cwd=self._folder,
            on_output=lambda _text: None,
            cancel=CancelToken(),
        )

    async def status(self) -> dict[str, str] | None:
        """Return the state of each changed file (`??` is untracked) by its path from the top of the
        repository; None outside of a repository."""
        done = await self.run("status", "--porcelain", "--no-renames", "-uall")
        if done.exit_code:
            return None
        found: dict[str, str] = {}
        for line in done.output.splitlines():
            name = line[3:]
            path = ast.literal_eval(name) if name.startswith('"') else name
            if not path.endswith("/"):  # a repository in the repository
                found[path] = line[:2]
        return found


# /diff


class FolderChanges(msgspec.Struct, frozen=True):
    title: str
    diff: str  #: In the format of git; "" if nothing has changed.
    untracked: tuple[str, ...] = ()  #: Files that are not in the diff.

    @property
    def untracked_line(self) -> str:
        names = ", ".join(f"`{each}`" for each in self.untracked)
        return f"Untracked: {names}" if names else ""


async def folder_changes(call: CommandCall) -> FolderChanges:
    """Return what changed in this session or, for `git` and without checkpoints, since the last
    commit. Raises `UsageError`."""
    session = call.app.session(call.agent)
    words = call.words
    of_git = words[:1] == ["git"]
    file = " ".join(words[1:] if of_git else words)
    if not of_git and session.session_tools.has_checkpoints:
        checkpoints, own = session.session_tools.checkpoints, {call.agent.session_id}
        own |= {each.id for each in await call.app.store.ancestors(call.agent.session_id)}
        numbers = [each.number for each in await checkpoints.list() if each.session in own]
        if numbers:
            diff = await checkpoints.diff(max(numbers), file)
            return FolderChanges("Changes since the first edit of this session", diff)
    if not session.place.here:
        raise UsageError("the files of this session are not on this machine")
    folder = Path(session.place.folder)
    git, only = UserGit(folder), ("--", file) if file else ()
    if not await git.line("rev-parse", "--show-toplevel"):
        if of_git:
            raise UsageError(f"{folder} is not in a git repository")
        return FolderChanges("Changes in this session", "")
    # A repository without a commit has no HEAD.
    since = "HEAD" if await git.line("rev-parse", "--verify", "--quiet", "HEAD") else "--cached"
    shown = await git.run("diff", "--no-ext-diff", since, *only, most=MAX_DIFF_BYTES)
    listed = await git.line("ls-files", "--others", "--exclude-standard", *only)
    return FolderChanges(
        "Uncommitted changes", shown.text, tuple(listed.split("\n")[:20] if listed else ())
    )


async def diff(call: CommandCall) -> str:
    found = await folder_changes(call)
    shown = f":\n\n```diff\n{found.diff.rstrip()}\n```" if found.diff else ": none"
    return "\n\n".join(filter(None, (f"{found.title}{shown}", found.untracked_line)))


# /init, /review and /commit: texts for the model.


async def init(call: CommandCall) -> str:
    await call.talk.ask(User.say(fill_arguments(bundled_prompt("init"), call.arguments)))
    return ""


async def review(call: CommandCall) -> str:
    status = _status_text(await _changed_files(call))
    text = fill_arguments(bundled_prompt("review"), call.arguments)
    await call.talk.ask(User.say(text.replace("$STATUS", status)))
    return ""


async def commit(call: CommandCall) -> str:
    changed = await _changed_files(call)
    staged = {path: state for path, state in changed.items() if state[0] not in " ?"}
    which, diff_command, how = "uncommitted", "git diff HEAD", "git add -A && git commit -F -"
    if staged:
        which, diff_command, how = "staged", "git diff --cached", "git commit -F -"
    values = {
        "$WHICH": which,
        "$STATUS": _status_text(staged or changed),
        "$DIFF": diff_command,
        "$COMMIT": how,
    }
    text = fill_arguments(bundled_prompt("commit"), call.arguments)
    for name, value in values.items():
        text = text.replace(name, value)
    await call.talk.ask(User.say(text))
    return ""


async def _changed_files(call: CommandCall) -> dict[str, str]:
    place = call.app.session(call.agent).place
    changed = await SessionGit(place).status()
    if changed is None:
        raise UsageError(f"{place.folder} is not in a git repository", hint="git init makes one")
    if not changed:
        raise UsageError("there are no uncommitted changes")
    return changed


def _status_text(changed: dict[str, str]) -> str:
    lines = [f"{state} {path}" for path, state in changed.items()]
    more = [f"and {len(lines) - MAX_STATUS_LINES} more"] if len(lines) > MAX_STATUS_LINES else []
    return "\n".join(("```", *lines[:MAX_STATUS_LINES], *more, "```"))


# /add-dir


async def add_dir(call: CommandCall) -> str:
    session = call.app.session(call.agent)
    guard = session.place.guard
    if not call.arguments:
        folders = "\n".join(f"- `{tilde(each)}`" for each in guard.workspace)
        return f"The workspace:\n\n{folders}\n\n`/add-dir PATH` adds a folder for this session."
    if not session.place.here:
        raise UsageError("the files of this session are not on this machine")
    path = Path(session.place.folder, Path(call.arguments).expanduser()).resolve()
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}")
    if path in (Path("/"), guard.home.resolve()) or guard.write_refusal(str(path / "x")):
        raise UsageError(f"{path} cannot be a workspace", hint="name the folder of a project")
    if path in guard.workspace:
        return f"`{tilde(path)}` is in the workspace already."
    await session.add_folder(path)
    return f"`{tilde(path)}` belongs to the workspace of this session."


# git.auto_commit


class AutoCommit:
    """Commits the files that a turn changed. Files with uncommitted changes from before the turn
    are left out, because a commit would take those changes too."""

    def __init__(self, place: SessionWorkspace, tell: Callable[[str], None]) -> None:
        """`tell` is called with what was committed."""
        self._git, self._tell = SessionGit(place), tell
        self._before: dict[str, str] | None = None  #: Changed files at the start, with their hash.
        self._title = ""
        self.commits: dict[int, str] = {}  #: Hashes by the number of the question.

    async def turn_started(self, _history: Sequence[Message], question: User) -> str:
        status = await self._git.status()
        self._before = None if status is None else await self._hashes(status)
        line = (
            next(iter(User(question.said).text.strip().splitlines()), "") or "changes by the agent"
        )
        self._title = line if len(line) <= MAX_SUBJECT else f"{line[: MAX_SUBJECT - 1]}…"
        return ""

    async def turn_ended(self, agent: Agent, _end: TurnFinished) -> None:
        """Raises `GitCommandFailed` if git refuses the commit; then nothing is staged."""
        before, self._before = self._before, None
        after = None if before is None else await self._git.status()
        if before is None or after is None:
            return
        now = await self._hashes({path: after[path] for path in before if path in after})
        mixed = sorted(path for path in now if now[path] != before[path])
        files = sorted(set(after) - set(before))
        if files:
            await self._commit(agent, files, [path for path in files if after[path] == "??"])
        if mixed:
            self._tell(f"not committed, because you changed them before: {', '.join(mixed)}")

    async def _commit(self, agent: Agent, files: list[str], untracked: list[str]) -> None:
        paths = [f":(top,literal){path}" for path in files]
        if untracked:
            new = [f":(top,literal){path}" for path in untracked]
            await self._run("add", "--intent-to-add", "--", *new)
        body = f"Session: {agent.session_id}"
        try:
            await self._run(
                "commit", "--quiet", "--only", "-m", self._title, "-m", body, "--", *paths
            )
        except GitCommandFailed:
            await self._git.run("reset", "--quiet", "--", *paths)
            raise
        short = (await self._run("rev-parse", "--short", "HEAD")).strip()
        self.commits[sum(isinstance(message, User) for message in agent.history)] = short
        self._tell(f"committed {short}: {self._title} ({many(len(files), 'file')})")

    async def _run(self, *arguments: str) -> str:
        done = await self._git.run(*arguments)
        if done.exit_code:
            output = done.output.strip() or f"exit code {done.exit_code}"
            raise GitCommandFailed(f"not committed: git {arguments[0]}: {output}")
        return done.output

    async def _hashes(self, status: dict[str, str]) -> dict[str, str]:
        """Return the hash of each file; "" for a deleted one."""
        there = [path for path, state in status.items() if "D" not in state]
        hashes: list[str] = []
        if there:
            top = (await self._git.run("rev-parse", "--show-toplevel")).output.strip()
            paths = [f"{top}/{path}" for path in there]
            hashes = (
                await self._git.run("hash-object", "--no-filters", "--", *paths)
            ).output.split()
        return {**dict.fromkeys(status, ""), **dict(zip(there, hashes, strict=False))}
