"""Which files a conversation may send, and what becomes of them."""

import base64
import gzip
import io
import os
import socket
import threading
import zipfile
from pathlib import Path

import msgspec
import pytest

from hermes.app.outgoing_files import (
    OUTBOX,
    NoFiles,
    OutgoingFiles,
    outgoing_files,
    remove_old_copies,
)
from hermes.app.sessions import SessionRequest
from hermes.app.workspace import SessionWorkspace, make_workspace
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import AttachmentRefused
from hermes.security import Redactor
from tests.cases import cases

CASES = cases(__file__)
KEY = "zq81-kk02-private-token-value"
LIMIT = 1_000_000


@pytest.fixture
def home(hermes_home: Path) -> Home:
    hermes_home.mkdir()
    return Home(hermes_home)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def place_at(home: Home, folder: Path) -> SessionWorkspace:
    return make_workspace(load(home), home, folder, lambda _text: None, "local")


@pytest.fixture
def files(home: Home, work: Path) -> OutgoingFiles:
    return OutgoingFiles(place_at(home, work), Redactor([KEY]), home.root)


async def refusal(files: OutgoingFiles | NoFiles, path: object) -> str:
    with pytest.raises(AttachmentRefused) as caught:
        await files.attach(str(path), LIMIT)
    return str(caught.value)


async def test_file_of_the_working_folder_is_copied(files: OutgoingFiles, work: Path) -> None:
    made = work / "sub" / "report.pdf"
    made.parent.mkdir()
    made.write_bytes(b"%PDF \0 first")
    copy = await files.attach(str(made), LIMIT)
    made.write_bytes(b"replaced later")
    assert (copy.name, copy.size, copy.redacted) == ("report.pdf", 12, False)
    assert Path(copy.path).read_bytes() == b"%PDF \0 first"
    assert Path(copy.path).stat().st_mode & 0o777 == 0o600


async def test_folder_may_be_named_by_a_link(home: Home, work: Path, tmp_path: Path) -> None:
    link = tmp_path / "shortcut"
    link.symlink_to(work)
    (work / "a.txt").write_text("fine")
    files = OutgoingFiles(place_at(home, link), Redactor(), home.root)
    for path in (link / "a.txt", work / "a.txt"):
        assert (await files.attach(str(path), LIMIT)).size == 4


async def test_redirected_folder_is_not_followed(home: Home, work: Path, tmp_path: Path) -> None:
    """The folder was replaced by a link after the conversation began."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "a.txt").write_text("LEAK")
    files = OutgoingFiles(place_at(home, work), Redactor(), home.root)
    work.rename(tmp_path / "moved")
    work.symlink_to(private)
    assert "symbolic link" in await refusal(files, work / "a.txt")


async def test_paths_outside_the_folder_are_refused_without_a_look(files, work, tmp_path) -> None:
    (tmp_path / "work-other").mkdir()
    (tmp_path / "work-other" / "a.txt").write_text("LEAK")
    for path in CASES["outside"]:
        reason = await refusal(files, path.format(work=work, parent=tmp_path))
        assert reason == "is outside this conversation's folder", path


async def test_paths_that_are_not_paths_are_refused(files: OutgoingFiles, work: Path) -> None:
    for path in (f"{work}/a\0.txt", f"{work}/a\n/etc/passwd", "report.txt", "~root/x", ""):
        assert "path" in await refusal(files, path)


async def test_things_that_are_not_plain_files_are_refused(files, work, tmp_path, monkeypatch):
    outside = tmp_path / "private.txt"
    outside.write_text("LEAK")
    (work / "folder").mkdir()
    (work / "link").symlink_to(outside)
    (work / "up").symlink_to(tmp_path)
    (work / "proc").symlink_to("/proc/self")
    (work / "inner").symlink_to(work / "folder")
    (work / "folder" / "a.txt").write_text("fine")
    os.mkfifo(work / "fifo")
    os.link(outside, work / "hard")
    with (work / "big.bin").open("wb") as file:
        file.truncate(LIMIT + 1)
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(work)
        listener.bind("socket")
        reasons = {name: await refusal(files, work / name) for name in CASES["refusals"]}
    assert reasons == CASES["refusals"]


async def test_home_as_working_folder_keeps_its_private_files(home: Home, user_home: Path) -> None:
    files = OutgoingFiles(place_at(home, user_home), Redactor(), home.root)
    for name in CASES["private"]:
        path = user_home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("LEAK")
        assert await refusal(files, path), name
        assert await refusal(files, f"~/{name}"), name
    for name in ("report.txt", "proj/.env.example", "proj/.github/ci.yml"):
        path = user_home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("fine")
        assert (await files.attach(f"~/{name}", LIMIT)).size == 4


async def test_users_send_from_their_own_folder_only(home: Home) -> None:
    (home.root / "notes.txt").write_text("LEAK")
    files = OutgoingFiles(place_at(home, home.root), Redactor(), home.root)
    assert await refusal(files, home.root / "notes.txt") == "is a private file of Hermes"
    for name in ("ann", "bob"):
        (home.root / "workspaces" / name).mkdir(parents=True)
        (home.root / "workspaces" / name / "x.txt").write_text("mine")
    bob = home.root / "workspaces" / "bob"
    files = OutgoingFiles(place_at(home, bob), Redactor(), home.root)
    assert (await files.attach(str(bob / "x.txt"), LIMIT)).size == 4
    outside = await refusal(files, home.root / "workspaces" / "ann" / "x.txt")
    assert outside == "is outside this conversation's folder"


async def test_chat_media_and_job_output_are_shared(home: Home, work: Path) -> None:
    media, other = home.root / "cache/media/a1", home.root / "cache/media/b2"
    output = home.cron / "output" / "job"
    for folder in (media, other, output):
        folder.mkdir(parents=True)
        (folder / "x.png").write_bytes(b"\0picture")
    place, redactor = place_at(home, work), Redactor()
    owner = outgoing_files(SessionRequest(work, shared_folders=(media,)), place, redactor, home)
    member = outgoing_files(
        SessionRequest(work, user_id="bob", shared_folders=(media,)), place, redactor, home
    )
    for files in (owner, member):
        assert (await files.attach(str(media / "x.png"), LIMIT)).size == 8
        assert "outside" in await refusal(files, other / "x.png")  # type: ignore[arg-type]
    assert (await owner.attach(str(output / "x.png"), LIMIT)).size == 8
    assert "outside" in await refusal(member, output / "x.png")  # type: ignore[arg-type]


async def test_guests_get_no_files(home: Home, work: Path) -> None:
    (work / "a.txt").write_text("LEAK")
    request = SessionRequest(work, sends_files=False)
    files = outgoing_files(request, place_at(home, work), Redactor(), home)
    assert isinstance(files, NoFiles)
    assert await refusal(files, work / "a.txt") == "cannot be sent: guests receive no files"


async def test_secrets_are_removed_from_text(files: OutgoingFiles, work: Path) -> None:
    (work / "log.txt").write_text(f"token {KEY}\nkey sk-proj-abcdefghijklmnop1234567890\nend\n")
    copy = await files.attach(str(work / "log.txt"), LIMIT)
    sent = Path(copy.path).read_text()
    assert copy.redacted
    assert KEY not in sent
    assert "abcdefghijklmnop1234567890" not in sent
    assert sent.endswith("end\n")


async def test_files_with_a_known_secret_are_refused(files: OutgoingFiles, work: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hermes/.env", f"KEY={KEY}\n" * 50)
    contents = {
        "dump.bin": b"\0\1" + KEY.encode() + b"\0",
        "wide.txt": KEY.encode("utf-16"),
        "hermes-backup-1.zip": packed.getvalue(),
        "a.tar.gz": gzip.compress(b"\0" * 600 + KEY.encode()),
        "encoded.bin": b"\0" + base64.b64encode(KEY.encode()),
    }
    for name, data in contents.items():
        (work / name).write_bytes(data)
        reason = await refusal(files, work / name)
        assert reason == "contains a key or password of this installation", name
    assert not list((files._outbox).glob("*"))


async def test_archives_without_secrets_are_sent(files: OutgoingFiles, work: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "harmless")
    (work / "a.zip").write_bytes(packed.getvalue())
    (work / "b.gz").write_bytes(gzip.compress(b"harmless"))
    for name in ("a.zip", "b.gz"):
        assert (await files.attach(str(work / name), LIMIT)).name == name


async def test_archives_that_cannot_be_searched_are_refused(files, work) -> None:
    (work / "bomb.gz").write_bytes(gzip.compress(b"\0" * 70_000_000))
    assert "too large to be searched" in await refusal(files, work / "bomb.gz")
    (work / "broken.gz").write_bytes(gzip.compress(b"x" * 100)[:10] + b"\xff" * 50)
    assert await refusal(files, work / "broken.gz") == "is a damaged archive"


async def test_swapped_link_never_leads_outside(files, work, tmp_path) -> None:
    """A process swaps a folder with a link to another one while its file is being read."""
    outside, inside, folder = tmp_path / "outside", tmp_path / "inside", work / "folder"
    for place, text in ((outside, "LEAK"), (inside, "fine")):
        place.mkdir()
        (place / "a.txt").write_text(text)
    inside.rename(folder)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            folder.rename(inside)
            folder.symlink_to(outside)
            folder.unlink()
            inside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    sent: set[str] = set()
    refusals: set[str] = set()
    try:
        for _ in range(1000):
            try:
                copy = await files.attach(str(folder / "a.txt"), LIMIT)
                sent.add(Path(copy.path).read_text())
            except AttachmentRefused as error:
                refusals.add(str(error))
    finally:
        over.set()
        thread.join()
    assert sent <= {"fine"}
    assert sent or refusals


async def test_files_of_a_container_are_read_through_it(home, work, tmp_path) -> None:
    """The folder stands for the file system of a container: only its own files are read."""
    (work / "a.txt").write_text("fine")
    (work / "link").symlink_to(tmp_path / "private.txt")
    (tmp_path / "private.txt").write_text("LEAK")
    place = msgspec.structs.replace(place_at(home, work), here=False)
    files = OutgoingFiles(place, Redactor([KEY]), home.root)
    assert (await files.attach(str(work / "a.txt"), LIMIT)).size == 4
    assert await refusal(files, work / "link") == "leads through a symbolic link"
    assert await refusal(files, "/proc/self/environ") == "is outside this conversation's folder"
    assert await refusal(files, work / "gone") == "does not exist"
    os.mkfifo(work / "fifo")
    assert await refusal(files, work / "fifo") == "is not a regular file"
    (work / "big").write_bytes(b"x" * (LIMIT + 1))
    assert "larger" in await refusal(files, work / "big")


async def test_old_copies_are_removed(files: OutgoingFiles, home: Home, work: Path) -> None:
    (work / "a.txt").write_text("fine")
    old, new = [await files.attach(str(work / "a.txt"), LIMIT) for _ in range(2)]
    os.utime(old.path, (1000, 1000))
    assert remove_old_copies(home.root, 2000) == 1
    assert [str(path) for path in (home.root / OUTBOX).iterdir()] == [new.path]
