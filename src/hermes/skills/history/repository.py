"""The git store of the skills: what lies in the folder as trees, and changes as commits."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.skills.history.changes import Change, Commit, commit_of, message_of
from hermes.skills.history.files import Entry, Put
from hermes.store.git import SETTINGS, Git, GitFailed
from hermes.util.atomic import write_text

FOLDER = ".history"
BRANCH = "refs/heads/main"
MOST_BYTES = 10_000_000
"""Larger files are not kept."""
MOST_DIFF = 500_000
"""Bytes of a diff that are shown."""
OWN_SETTINGS = """\
[core]
	fsync = committed,reference
[user]
	name = Hermes
	email = hermes@localhost
"""
EXCLUDED = """\
/.*
!/.retired
.*.tmp
__pycache__/
*.pyc
node_modules/
.venv/
.DS_Store
"""
"""Dot files at the top are state of the hub, counts and locks; the user's own .git is among them,
and git never looks into one that lies deeper. A .gitignore has no say: what the agent writes must
be kept whatever it is called."""
ATTRIBUTES = "* -text !eol -ident !filter !working-tree-encoding\n"
"""Above every .gitattributes of the folder: files are kept byte for byte."""
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", "node_modules", ".venv"})


class Repository:
    """Used by one task at a time; the caller holds the lock for whatever writes."""

    def __init__(self, program: str, workspace: Path) -> None:
        self.workspace = workspace
        self._exclude = workspace / FOLDER / "info" / "exclude"
        self.git = Git(program, workspace / FOLDER, workspace)

    @property
    def exists(self) -> bool:
        return (self.git.folder / "HEAD").exists()

    def prepare(self) -> None:
        """Make the store, or make sure that its settings are ours and nobody else's."""
        folder = self.git.folder
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in {
            "HEAD": f"ref: {BRANCH}\n",
            "config": SETTINGS + OWN_SETTINGS,
            "info/exclude": EXCLUDED,
            "info/attributes": ATTRIBUTES,
        }.items():
            path = folder / name
            if not path.exists() or path.read_text("utf-8", "replace") != text:
                write_text(path, text, mode=0o600)
        for left in ("index.lock", f"{BRANCH}.lock"):  # by a git that was killed
            (folder / left).unlink(missing_ok=True)

    async def head(self) -> str:
        """The id of the newest commit; "" when there is none."""
        output = await self.git.run("rev-parse", "--verify", "--quiet", BRANCH, good=(0, 1))
        return output.decode().strip()

    async def changed_names(self) -> list[str]:
        """Files that are new, changed or gone since the index was written."""
        output = await self.git.run(
            "ls-files", "-z", "--others", "--modified", "--deleted", "-X", str(self._exclude)
        )
        names: dict[str, None] = {}
        for name in (os.fsdecode(each) for each in output.split(b"\0") if each):
            # A repository of the user's inside the folder is one thing for git.
            inside = self._within(name) if name.endswith("/") else (name,)
            names.update(dict.fromkeys(inside))
        return list(names)

    async def commit_changes(self, change: Change) -> Commit | None:
        """What is in the paths of the change now, as a commit; None when nothing differs."""
        tree = await self._tree_now(change.paths)
        head = await self.head()
        if head and tree == await self._id(f"{head}^{{tree}}"):
            return None
        if not head and not await self.git.run("ls-tree", tree):
            return None
        parent = ("-p", head) if head else ()
        message = message_of(change).encode()
        output = await self.git.run("commit-tree", tree, *parent, "-F", "-", data=message)
        commit_id = output.decode().strip()
        await self.git.run("update-ref", BRANCH, commit_id, head or "0" * 40)
        return (await self.log(commit_id, most=1))[0]

    async def log(self, start: str = BRANCH, most: int = 0) -> list[Commit]:
        """The newest first; `most` 0 is all."""
        limit = (f"--max-count={most}",) if most else ()
        output = await self.git.run("log", "-z", "--format=%H%x1f%ct%x1f%B", *limit, start, "--")
        texts = [each for each in output.decode("utf-8", "replace").split("\0") if each]
        return [commit_of(*text.split("\x1f", 2)) for text in texts]

    async def touching(self, path: str, since: str) -> list[Commit]:
        """Commits after `since` that changed the file, the newest first."""
        output = await self.git.run(
            "log", "-z", "--format=%H%x1f%ct%x1f%B", f"{since}..{BRANCH}", "--",
            f":(literal){path}",
        )  # fmt: skip
        texts = [each for each in output.decode("utf-8", "replace").split("\0") if each]
        return [commit_of(*text.split("\x1f", 2)) for text in texts]

    async def diff(self, commit_id: str) -> str:
        """What the commit changed, as text for a person."""
        output = await self.git.run(
            "show", "--format=", "--no-color", "--no-ext-diff", "--no-textconv", commit_id, "--"
        )
        text = output[:MOST_DIFF].decode("utf-8", "replace")
        rest = output[MOST_DIFF:].count(b"\n")
        return f"{text}\n[… {rest} more lines]" if rest else text

    async def deltas(self, commit_id: str) -> list[tuple[str, Entry | None, Entry | None]]:
        """What the commit did: path, entry before and entry after."""
        output = await self.git.run(
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-commit-id",
            "--root",
            commit_id,
        )
        fields = output.split(b"\0")
        found = []
        for meta, name in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _ = meta.decode().lstrip(":").split()
            found.append((os.fsdecode(name), _entry(old_mode, old), _entry(new_mode, new)))
        return found

    async def entries(self, commit: str = BRANCH) -> dict[str, Entry]:
        """All files of a commit, the newest one unless said otherwise."""
        output = await self.git.run("ls-tree", "-r", "-z", commit)
        found: dict[str, Entry] = {}
        for line in output.split(b"\0"):
            if line:
                meta, _, name = line.partition(b"\t")
                mode, _, object_id = meta.decode().split()
                found[os.fsdecode(name)] = Entry(mode, object_id)
        return found

    async def contents(self, puts: Sequence[Put]) -> dict[str, bytes]:
        """The bytes of all that is to be put, by id."""
        ids = list({each.entry.id for each in puts if each.entry is not None})
        return dict(zip(ids, await self.git.blobs(ids), strict=True)) if ids else {}

    async def tidy(self) -> None:
        """Pack what has piled up, when it is worth it."""
        await self.git.run("gc", "--quiet", "--auto")

    async def rebuilt(self) -> bool:
        """Make git's list of files anew from the newest commit; False when more is damaged."""
        (self.git.folder / "index").unlink(missing_ok=True)
        try:
            await self.git.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
            if await self.head():
                await self.git.run("read-tree", BRANCH)
        except GitFailed:
            return False
        return True

    async def _tree_now(self, under: Sequence[str]) -> str:
        names = [name for name in await self.changed_names() if not under or _below(name, under)]
        keep = [name for name in names if self._fits(name)]
        await self._update("--add", "--remove", "--replace", names=keep)
        await self._update("--force-remove", names=sorted(set(names) - set(keep)))
        return (await self.git.run("write-tree")).decode().strip()

    async def _update(self, *options: str, names: Sequence[str]) -> None:
        if names:
            data = b"".join(os.fsencode(name) + b"\0" for name in names)
            await self.git.run("update-index", "-z", *options, "--stdin", data=data)

    async def _id(self, what: str) -> str:
        return (await self.git.run("rev-parse", "--verify", what)).decode().strip()

    def _within(self, folder: str) -> Iterator[str]:
        for place, folders, files in os.walk(self.workspace / folder):
            folders[:] = [each for each in folders if each not in SKIPPED_FOLDERS]
            relative = Path(place).relative_to(self.workspace)
            yield from (str(relative / file) for file in files)

    def _fits(self, name: str) -> bool:
        """Whether it is a file to keep. One that is gone counts: git takes it out."""
        try:
            found = (self.workspace / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError as error:
            raise StoreError(f"{name} cannot be looked at: {error.strerror}") from error
        readable = os.access(self.workspace / name, os.R_OK)
        regular = stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES and readable
        return regular or stat.S_ISLNK(found.st_mode)


def _below(name: str, folders: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}/") for each in folders)


def _entry(mode: str, object_id: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, object_id)
