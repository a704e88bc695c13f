"""Bringing files to a host and back, with each kind of tar."""

import os
import stat
from pathlib import Path

import pytest

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal.sync import PushResult, Sync
from tests.integration.hosts.machine_host import MachineHost, programs


class Counting(MachineHost):
    """Counts the programs it starts."""

    started = 0

    async def start(self, argv, **options):
        self.started += 1
        return await super().start(argv, **options)


@pytest.fixture(params=["usual", "busybox"])
async def host(request, tmp_path, tmp_path_factory):
    path = programs(request.param, tmp_path_factory.mktemp("p") / "bin", os.environ["PATH"])
    host = Counting({"PATH": path, "HOME": str(tmp_path / "home")}, tmp_path, noise="hello\n")
    yield host
    await host.close()


@pytest.fixture
def here(tmp_path):
    folder = tmp_path / "here"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "sub/run.sh").write_text("#!/bin/sh\n")
    (folder / "sub/run.sh").chmod(0o755)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_folder_arrives_with_its_modes(host, here, tmp_path):
    name = "n" * 120 + " ' é"
    (here / name).write_bytes(bytes(range(256)) * 5_000)
    raw = os.fsdecode(os.fsencode(here) + b"/caf\xe9")
    Path(raw).write_text("x")
    there = tmp_path / "there/deep"
    pushed = await Sync(host).push([(here, str(there))])
    assert str(there / "a.txt") in pushed.sent
    assert (there / name).read_bytes() == bytes(range(256)) * 5_000
    assert Path(os.fsdecode(os.fsencode(there) + b"/caf\xe9")).read_text() == "x"
    assert mode(there / "sub/run.sh") == 0o755
    assert host.started == 1


async def test_only_what_changed_is_sent(host, here, tmp_path):
    sync, there = Sync(host), tmp_path / "there"
    pairs = [(here, str(there))]
    await sync.push(pairs)
    started = host.started
    assert await sync.push(pairs) == PushResult()
    os.utime(here / "a.txt", ns=(1, 1))  # a new time, the same contents
    assert await sync.push(pairs) == PushResult()
    assert host.started == started
    (here / "a.txt").write_text("b")
    assert (await sync.push(pairs)).sent == (str(there / "a.txt"),)
    assert (there / "a.txt").read_text() == "b"
    (here / "a.txt").chmod(0o600)
    assert (await sync.push(pairs)).sent == (str(there / "a.txt"),)
    assert mode(there / "a.txt") == 0o600
    sync.forget()
    assert len((await sync.push(pairs)).sent) == 4


async def test_only_deleted_files_are_removed_from_the_host(host, here, tmp_path):
    sync, there = Sync(host), tmp_path / "there"
    await sync.push([(here, str(there))])
    (there / "own.txt").touch()
    (here / "sub/run.sh").unlink()
    (here / "sub").rmdir()
    pushed = await sync.push([(here, str(there))])
    assert pushed.removed == (str(there / "sub/run.sh"), str(there / "sub"))
    assert sorted(path.name for path in there.iterdir()) == ["a.txt", "own.txt"]


async def test_credential_files_are_private_and_read_only(host, tmp_path):
    key, sync = tmp_path / "key", Sync(host)
    key.write_text("one")
    key.chmod(0o644)
    await sync.push([(key, "~/.config/key")], private=True)
    there = tmp_path / "home/.config/key"
    assert (there.read_text(), mode(there)) == ("one", 0o400)
    key.write_text("two!")
    await sync.push([(key, "~/.config/key")], private=True)
    assert there.read_text() == "two!"
    key.unlink()
    await sync.push([(key, "~/.config/key")], private=True)
    assert not there.exists()


async def test_links_out_of_the_folder_are_not_followed(host, here, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (here / "out").symlink_to(tmp_path / "secret")
    (here / "up").symlink_to("../secret")
    (here / "in").symlink_to("sub/run.sh")
    (here / "absolute").symlink_to(here / "a.txt")
    os.mkfifo(here / "pipe")
    there = tmp_path / "there"
    pushed = await Sync(host).push([(here, str(there))])
    assert sorted(Path(path).name for path in pushed.left_out) == ["out", "pipe", "up"]
    assert sorted(path.name for path in there.iterdir()) == ["a.txt", "absolute", "in", "sub"]
    assert (there / "absolute").resolve() == there / "a.txt"


async def test_host_without_tar_is_reported(tmp_path, here):
    (tmp_path / "bin").mkdir()
    for name in ("sh", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    host = MachineHost({"PATH": str(tmp_path / "bin")}, tmp_path)
    with pytest.raises(BackendUnavailable, match="no tar"):
        await Sync(host).push([(here, str(tmp_path / "there"))])
    await host.close()


async def test_a_failed_push_is_made_up_for(tmp_path, here):
    host = MachineHost({"PATH": os.environ["PATH"]}, tmp_path)
    sync, there = Sync(host), tmp_path / "there"
    there.touch()  # a file where the folder should be
    with pytest.raises(ToolError, match="could not be brought over"):
        await sync.push([(here / "a.txt", f"{there}/a.txt")])
    there.unlink()
    assert (await sync.push([(here / "a.txt", f"{there}/a.txt")])).sent == (f"{there}/a.txt",)
    assert (there / "a.txt").read_text() == "a"
    await host.close()
