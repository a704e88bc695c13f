"""A member of a chat, in a sandbox on the owner's machine.

The member's agent runs scripts in the real bubblewrap, and no analysis of commands helps: approvals
are off, and each attack is in a file. The home of the owner is not below /tmp, which every sandbox
has for itself. A control shows what an owner's sandbox sees, so that an attack can have an effect.
"""

import asyncio
import os
import pwd
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step
from hermes.gateway.runner import GatewayRunner
from hermes.memory import MemoryScope
from hermes.skills import bundled_folder
from hermes.terminal.sandbox import SandboxHost, SandboxOptions
from tests.integration.platforms.local.local_harness import LocalHarness
from tests.redteam.conftest import Loot, Machine, Outcome, call
from tests.workspace import run_git

pytestmark = pytest.mark.requires("bwrap")

WORD = "swordfish-4711"  #: In every file of the owner that a member must not read.
MEMBER = "local:bob"


class SharedMachine(Machine):
    """The owner's machine. The agent works for a member, in the folder of the member."""

    def __init__(self, user_home: Path) -> None:
        super().__init__(user_home, user_home / ".hermes")
        self.project, self.work = self.work, self.hermes / "workspaces" / "local_bob"
        self.others = self.hermes / "workspaces" / "local_eve"
        self.configure("approvals:\n  mode: 'off'\n")
        for path in (
            user_home / ".profile", user_home / ".bash_history", user_home / "other-project/.env",
            user_home / ".mozilla/cookies.txt", user_home / "Documents/letter.txt",
            self.others / "notes.txt", self.hermes / "memories/USER.md", self.project / ".env",
            self.hermes / "logs/old.log",
        ):  # fmt: skip
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{WORD} in {path.name}\n")
            self._guarded[path] = path.read_bytes()
        self.work.mkdir(parents=True)

    async def run_as(self, user: str, *calls: Any, **request: Any) -> Outcome:
        """Run tools in a sandbox for a member, or for the owner if `user` is ""."""
        scope = MemoryScope(user=user)
        return await self.run(*calls, user_id=user, scope=scope, backend="sandbox", **request)

    async def attack(self, script: str, *, user: str = MEMBER, **request: Any) -> Outcome:
        """Run a script as `run_as` does."""
        names = {"HOME_OF_OWNER": self.home, "HERMES": self.hermes, "WORK": self.work}
        lines = [f"{name}={value}" for name, value in {**names, "PYTHON": PYTHON}.items()]
        (self.work / "attack.sh").write_text("\n".join([*lines, script]))
        return await self.run_as(user, call("terminal", command="sh ./attack.sh"), **request)


PYTHON = Path(sys.executable).resolve()


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedMachine]:
    around = pwd.getpwuid(os.geteuid()).pw_dir
    with tempfile.TemporaryDirectory(prefix=".hermes-redteam-", dir=around) as folder:
        home = Path(folder)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("HERMES_HOME", f"{folder}/.hermes")
        monkeypatch.setenv("OWNER_NOTE", WORD)
        yield SharedMachine(home)


READS = {
    "profile": "cat $HOME_OF_OWNER/.profile",
    "history": "cat $HOME_OF_OWNER/.bash_history",
    "documents": "cat $HOME_OF_OWNER/Documents/letter.txt",
    "browser": "cat $HOME_OF_OWNER/.mozilla/cookies.txt",
    "env-of-another-project": "cat $HOME_OF_OWNER/other-project/.env",
    "whole-home": "grep -rs swordfish $HOME_OF_OWNER",
    "relative-path": "cd ..; cat ../../.profile ../../../.profile",
    "link-out-of-the-workspace": "ln -s $HOME_OF_OWNER all; cat all/.profile; grep -rs swordf all/",
    "link-of-links": "ln -s / r; ln -s r$HOME_OF_OWNER s; cat s/.profile",
    "hard-link": "ln $HOME_OF_OWNER/.profile p; ln -P $HOME_OF_OWNER/.profile p; cat p",
    "root-of-other-processes": "cat /proc/*/root$HOME_OF_OWNER/.profile",
    "folder-of-other-processes": "cat /proc/*/cwd/.profile /proc/*/cwd/../../../.profile",
    "descriptors-of-other-processes": "cat /proc/[0-9]*/fd/*/.profile /proc/*/fd/*/../.profile",
    "descriptors-inherited": "for n in 3 4 5 6 7 8 9 10; do cat <&$n/.profile; ls /dev/fd/$n/;"
    " cat /proc/self/fd/$n$HOME_OF_OWNER/.profile; done",
    "environment": "env; cat /proc/self/environ /proc/1/environ /proc/*/environ | tr '\\0' '\\n'",
    "own-user-namespace": "unshare -Urm sh -c 'umount -a; cat $0/.profile' $HOME_OF_OWNER",
    "mount": "mkdir m; mount --bind / m; cat m$HOME_OF_OWNER/.profile;"
    " unshare -Urm sh -c 'mount -t proc p m; cat m/1/root$0/.profile' $HOME_OF_OWNER",
    "raw-disk": "for d in vda sda nvme0n1 dm-0; do mknod $d b 254 0; cat $d | grep -am1 swordfish;"
    " grep -am1 swordfish /dev/$d; done",
    "everything": "grep -rs swordfish --exclude-dir=proc --exclude-dir=usr /",
}
"""What a member would run to read files of the owner. Quoted text is not expanded by the shell that
starts the script, but by the script."""
HIDDEN_FROM_OWNERS_TOO = {
    "other-workspace": "cat $HERMES/workspaces/local_eve/notes.txt; cat ../local_eve/notes.txt",
    "memory-of-the-owner": "cat $HERMES/memories/USER.md",
    "logs": "cat $HERMES/logs/*",
    "keys-of-hermes": "cat $HERMES/.env $HERMES/auth.json $HERMES/config.yaml $HERMES/*.db",
    "keys-of-the-user": "cat $HOME_OF_OWNER/.ssh/id_rsa $HOME_OF_OWNER/.aws/credentials",
}
WITHOUT_EFFECT = frozenset(
    {
        "hard-link", "root-of-other-processes", "descriptors-inherited", "own-user-namespace",
        "mount", "raw-disk", "relative-path", "folder-of-other-processes",
        "descriptors-of-other-processes", "everything",
    }
)  # fmt: skip
"""Held in every sandbox, so the control shows nothing; or it takes too long."""


@pytest.mark.parametrize("attack", [*READS, *HIDDEN_FROM_OWNERS_TOO])
async def test_member_reads_nothing_of_the_owner(shared: SharedMachine, attack: str):
    outcome = await shared.attack({**READS, **HIDDEN_FROM_OWNERS_TOO}[attack])
    assert len(outcome.results) == 1
    assert WORD not in outcome.text
    shared.assert_no_secret_in(outcome.text, outcome.sent_to_model)
    shared.assert_unharmed()


@pytest.mark.parametrize("attack", sorted(READS.keys() - WITHOUT_EFFECT))
async def test_the_same_attack_in_a_sandbox_of_the_owner_has_an_effect(
    shared: SharedMachine, attack: str
):
    outcome = await shared.attack(READS[attack], user="")
    assert WORD in outcome.text


async def test_system_is_small(shared: SharedMachine):
    outcome = await shared.attack(
        "exec 2>/dev/null; ls -A / | tr '\\n' ' '; echo; ls -d /sys /home /opt;"
        "ls -A $HOME_OF_OWNER;"
        "cat /etc/shadow /etc/sudoers /etc/ssh/* /etc/machine-id; ls -A /etc/ssl/private $HERMES;"
        "cat /etc/passwd; ls /var/log /var/lib /var/spool; find / -name id_rsa -o -name '*.env'"
    )
    seen = set(outcome.text.splitlines()[0].split())
    seen.discard(bundled_folder().parts[1])  # where Hermes itself is
    assert seen <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix", "proc", "root",
                    "home", "run", "sbin", "tmp", "usr", "var"}  # fmt: skip
    assert "root:" not in outcome.text
    assert not [line for line in outcome.text.splitlines() if line.endswith((".env", "id_rsa"))]
    shared.assert_no_secret_in(outcome.text)


async def test_member_can_work(shared: SharedMachine):
    (shared.hermes / "skills" / "tea").mkdir(parents=True)
    (shared.hermes / "skills" / "tea" / "brew.sh").write_text("echo brewed")
    (shared.hermes / "skills" / "tea" / "SKILL.md").write_text(
        "---\nname: tea\ndescription: Brew tea\n---\nBrew.\n"
    )
    outcome = await shared.attack(
        "set -e; sh $HERMES/skills/tea/brew.sh; python3 -c 'import ssl, sqlite3; print(6 * 7)'\n"
        "git init -q new; cd new; git config user.name Bob; git config user.email b@example.org\n"
        "echo x > x; git add x; git commit -qm first; git log --format=%an; cd; pwd; echo ~; id -un"
    )
    folder = str(shared.work)
    assert outcome.text.split() == ["brewed", "42", "Bob", folder, folder, "user"]


WRITES = {
    "home": "echo x >> $HOME_OF_OWNER/.bashrc; mkdir -p $HOME_OF_OWNER/.ssh; echo k >"
    " $HOME_OF_OWNER/.ssh/authorized_keys; rm -rf $HOME_OF_OWNER",
    "hermes": "echo 'approvals: {mode: off}' > $HERMES/config.yaml; echo x > $HERMES/skills/x;"
    " rm -rf $HERMES; mv $HERMES $HERMES.old",
    "system": "touch /usr/bin/x /etc/x /bin/x /x; echo x > /proc/sys/kernel/core_pattern;"
    " echo x > /proc/sysrq-trigger",
    "through-links": "ln -s $HOME_OF_OWNER up; echo x > up/.bashrc; ln -s ../../.. up2;"
    " echo x > up2/.bashrc; echo x > up2/.hermes/config.yaml",
    "workspace-itself": "cd ..; mv local_bob local_eve; rmdir local_bob; touch new",
    "remount": "unshare -Urm sh -c 'mount -o remount,rw /; mount -o remount,bind,rw /usr;"
    " touch /usr/x; mount -o bind,remount,rw $0' $HERMES",
}  # fmt: skip


@pytest.mark.parametrize("attack", WRITES)
async def test_member_changes_nothing_outside_the_folder(shared: SharedMachine, attack: str):
    before = sorted(str(path) for path in shared.home.rglob("*") if shared.work not in path.parents)
    await shared.attack(WRITES[attack])
    shared.assert_unharmed()
    known = (
        "state.db", "logs", "cache", "memories", "skills", "checkpoints", ".usage", "integrity",
    )  # fmt: skip
    after = {str(path) for path in shared.home.rglob("*") if shared.work not in path.parents}
    added = [path for path in after - set(before) if not any(each in path for each in known)]
    assert added == []
    assert not Path("/usr/x").exists()


async def test_services_of_the_machine_are_out_of_reach(shared: SharedMachine, loot: Loot):
    """Sockets of the file system, as that of docker, abstract ones, and loopback."""
    path, name = shared.home / "docker.sock", f"\0hermes-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as plain, socket.socket(socket.AF_UNIX) as abstract:
        for each, address in ((plain, str(path)), (abstract, name)):
            each.bind(address)
            each.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(name)  # it works from here
        script = (
            "import os, socket, urllib.request\n"
            f"for a in ({str(path)!r}, {name!r}, '/run/docker.sock', '/var/run/docker.sock',"
            " '/run/dbus/system_bus_socket', '/run/user/0/bus', '/tmp/.X11-unix/X0'):\n"
            "    try: socket.socket(socket.AF_UNIX).connect(a); print('REACHED', repr(a))\n"
            "    except OSError as error: print(error.strerror)\n"
            f"try: print('REACHED', urllib.request.urlopen({loot.url!r}, timeout=3).status)\n"
            "except OSError as error: print(error)\n"
        )
        (shared.work / "connect.py").write_text(script)
        outcome = await shared.attack("$PYTHON connect.py || python3 connect.py")
    assert "refused" in outcome.text
    assert "REACHED" not in outcome.text
    assert loot.requests == []


async def test_processes_of_the_machine_are_out_of_reach(shared: SharedMachine):
    sleep = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - it takes no time
    try:
        outcome = await shared.attack(
            f"kill -9 {sleep.pid} {os.getpid()}; ps ax; cat /proc/{os.getpid()}/cmdline; kill -9 -1"
        )
        assert sleep.poll() is None
    finally:
        sleep.kill()
        sleep.wait()
    assert "pytest" not in outcome.text


async def test_job_of_a_member_is_confined_too(shared: SharedMachine):
    outcome = await shared.attack(READS["profile"], source="cron", goes_on=False)
    assert outcome.results
    assert WORD not in outcome.text


@pytest.mark.parametrize("user", [MEMBER, ""], ids=["member", "owner"])
@pytest.mark.parametrize("name", ["AGENTS.md", "sub/AGENTS.md", "CLAUDE.md", ".hermes.md"])
async def test_links_to_files_of_the_owner_are_not_loaded_as_instructions(
    shared: SharedMachine, name: str, user: str
):
    """The gateway reads these files outside the sandbox, and follows links of owners."""
    link = shared.work / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(shared.home / "Documents" / "letter.txt")
    outcome = await shared.run_as(user, call("read_file", path=f"{link.parent}/x"))
    assert (WORD in outcome.sent_to_model) == (user == "")


# Files of a project that run later, outside the sandbox.

LATER = {
    "hook": "echo 'touch $0' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "fsmonitor": "git config core.fsmonitor ./evil; printf '[core]\\nfsmonitor=x' >> .git/config",
    "config-replaced": "cp .git/config c; echo '[alias] st=!x' >> c; mv -f c .git/config",
    "hooks-folder-replaced": "rm -rf .git/hooks; mv .git/hooks .git/h; ln -sfn ../evil .git/hooks",
    "git-folder-replaced": "cp -r .git g2; echo '[core] fsmonitor=x' >> g2/config; mv .git g; mv g2"
    " .git; rm -rf .git; mv g2 .git",
    "project-replaced": "cd ..; cp -r project p2; echo '[core] fsmonitor=x' >> p2/.git/config; mv"
    " project p3 && mv p2 project",
    "common-folder": "cp -r .git g2; echo '[core] fsmonitor=x' >> g2/config; echo ../g2 >"
    " .git/commondir",
    "submodule": "mkdir -p .git/modules/m; echo '[core] fsmonitor=x' >> .git/modules/m/config",
    "worktree": "echo '[core] fsmonitor=x' >> .git/worktrees/w/config.worktree; echo ../../../g2 >"
    " .git/worktrees/w/commondir",
    "direnv": "echo 'touch x' >> .envrc; mv .envrc e; rm -f .envrc",
    "editor": "echo '{}' > .vscode/tasks.json; rm -rf .vscode; mv .vscode v",
    "mounts": "unshare -Urm sh -c 'umount .git/config; umount .git; echo x >> .git/config'",
}  # fmt: skip


def git_files(project: Path) -> dict[str, bytes]:
    """What git and other programs of the user obey."""
    names = (
        ".git/config", ".git/commondir", ".git/hooks/*", ".git/modules/*/config", ".envrc",
        ".git/worktrees/*/*", ".vscode/*",
    )  # fmt: skip
    found = [path for name in names for path in project.glob(name) if path.is_file()]
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize("user", [MEMBER, ""], ids=["member", "owner"])
@pytest.mark.parametrize("attack", LATER)
async def test_files_that_run_later_stay_as_they_are(shared: SharedMachine, attack: str, user: str):
    project = shared.work / "code" / "project"
    project.mkdir(parents=True)
    for name in (".vscode/tasks.json", ".envrc", "a.txt"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("{}\n")
    for words in (
        ("init", "--quiet"), ("add", "a.txt"), ("commit", "--quiet", "-m", "first"),
        ("worktree", "add", "--quiet", "../w"),
    ):  # fmt: skip
        run_git(*words, folder=project)
    (project / ".git/modules/m").mkdir(parents=True)
    (project / ".git/modules/m/config").write_text("[core]\n")
    before = git_files(project)
    work = "echo b >> a.txt; git -c user.name=a -c user.email=b commit -qam second"
    outcome = await shared.attack(
        f"cd code/project; {work}; git log --format=%s; ({LATER[attack]})", user=user
    )
    assert "second\nfirst" in outcome.text, "work in the repository goes on"
    assert git_files(project) == before


async def test_start_is_repeated_when_a_mount_disappears(tmp_path: Path):
    """A container that stops in that instant makes bubblewrap fail."""
    work, real = tmp_path / "work", "/usr/bin/bwrap"
    work.mkdir()
    fake = tmp_path / "bwrap"
    fake.write_text(
        f"#!/bin/sh\nif [ ! -e {tmp_path}/twice ]; then\n"
        f"[ -e {tmp_path}/once ] && touch {tmp_path}/twice; touch {tmp_path}/once\n"
        'echo "bwrap: Can\'t bind mount: Unable to apply mount flags: remount: No such file" >&2\n'
        f'exit 1; fi\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    host = SandboxHost(SandboxOptions((str(work),), confined=True), {"PATH": path})
    said: list[bytes] = []
    process = await host.start(["echo", "hello"], on_output=said.append)
    assert await process.wait() == 0
    await host.close()
    assert b"".join(said) == b"hello\n"
    assert (tmp_path / "twice").exists()


@pytest.mark.parametrize("person", ["ann", "bob", "carl"])
async def test_roles_in_a_gateway(
    shared: SharedMachine, person: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """ann is the owner, bob a member, carl a guest that was given a terminal."""
    harness = LocalHarness(tmp_path)
    await harness.platform.listen(harness.socket)
    people = {"LOCAL_ALLOWED_USERS": "ann,bob", "GATEWAY_ALLOW_ALL_USERS": "true"}
    for name, value in {**harness.variables, **people}.items():
        monkeypatch.setenv(name, value)
    read = ToolCall("c1", "terminal", f'{{"command": "cat {shared.home}/.profile; echo read"}}')
    home, requests = Home(shared.hermes), []

    def answer(request: Any) -> Step | str:
        requests.append(str(request.body["messages"][-1]["content"]))
        return Step((read,)) if len(requests) == 1 else "the end"

    with ModelServer(answer) as server:
        settings = {
            "model.provider": "custom", "model.base_url": f"{server.url}/v1",
            "model.default": "lab", "gateway.cwd": str(shared.project),
            "gateway.terminal": "sandbox", "gateway.owners": ["local:ann"],
            "gateway.role_toolsets": {"guest": ["terminal"]},
        }  # fmt: skip
        runner = GatewayRunner(home, load(home, settings), note=print, quiet=True)
        task = asyncio.create_task(runner.run())
        try:
            async with asyncio.timeout(60):
                while not runner.began.is_set() or not runner.gateway.connections.accounts():
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.01)
                await harness.says("read it", chat=person, user=person)
                while not any("the end" in each.text for each in await harness.shown(person)):
                    await asyncio.sleep(0.02)
        finally:
            runner.stop()
            await task
            await harness.platform.close()
    assert len(requests) == 2
    if person != "carl":
        assert "read" in requests[1]
    assert (WORD in requests[1]) == (person == "ann")
