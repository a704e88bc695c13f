"""A process of its own that is killed at every single step of a change of the shelf.

    python kill_scene.py HUB_FOLDER OLD_FOLDER NEW_FOLDER ACTION

For N = 1, 2, 3 … a child starts from the same state, does ACTION and gets SIGKILL right before its
N-th step on the disk, until one child comes through. After each death the folder is looked at as
the next process would find it. Prints one JSON list: for each death, what was found.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from hermes.skills.hub.hub import Hub, HubOptions, audit_installed

STEPS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod")
MOST = 400


def die_at(number: int, root: Path) -> None:
    """Sends this process SIGKILL before its `number`-th step below `root`."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in STEPS or not str(arguments[0]).startswith(str(root)):
            return
        if event == "open" and not _writes(arguments):
            return
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


async def change(root: Path, folder: Path, action: str) -> None:
    async with Hub(HubOptions(root)) as hub:
        if action == "remove":
            hub.uninstall("pdf")
            return
        shutil.copytree(folder, folder.parent / "source", dirs_exist_ok=True)
        candidate = await hub.prepare(str(folder.parent / "source"))
        hub.accept(candidate)


async def look(root: Path) -> dict[str, object]:
    """What lies there, and what is left of it after the next process has opened it."""
    before = sorted((root / "skills").rglob("SKILL.md"))
    async with Hub(HubOptions(root)) as hub:
        skills = hub.store.lock().skills
        found = audit_installed(hub)
        texts = [file.read_text() for file in (root / "skills").rglob("SKILL.md")]
        return {
            "seen_before": len(before),
            "in_lock": sorted(skills),
            "clean": found.clean,
            "version": "new" if any("New" in text for text in texts) else "old" if texts else "",
            "pending": (root / "pending.json").exists(),
        }


def main() -> None:
    root, old, new, action = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    start = root.parent / "start"
    if action in ("update", "remove"):
        asyncio.run(change(root, old, "install"))
    else:
        root.mkdir(parents=True)
    shutil.copytree(root, start)
    deaths: list[dict[str, object]] = []
    for number in range(1, MOST):
        shutil.rmtree(root)
        shutil.copytree(start, root)
        child = os.fork()
        if child == 0:
            die_at(number, root)
            asyncio.run(change(root, new, action))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found = asyncio.run(look(root))
        if os.WIFEXITED(status):
            found["code"] = os.WEXITSTATUS(status)
            deaths.append(found)
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        deaths.append(found)
    print(json.dumps(deaths))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
