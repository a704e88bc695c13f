"""Attaching files: what the model gets, and what the user hears."""

import base64
import os
import socket
import sys
from pathlib import Path

import pytest

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_the_text_stays_as_typed_and_the_file_is_below(attach, workspace: Path) -> None:
    (workspace / "a.py").write_text("x = 1\ny = 2\n")
    done = await attach("explain @file:a.py,\nplease  ")
    assert done.text == (
        "explain @file:a.py,\nplease  \n\n--- Attached Context ---\n\n"
        "@file:a.py (2 lines)\n```py\nx = 1\ny = 2\n```"
    )
    assert done.warnings == ()
    assert 0 < done.tokens < 50


async def test_a_text_without_references_is_untouched(attach) -> None:
    text = "nothing @here to see... @... @.. @~ @/ @@ -1,3 +1,4 @@ @!"
    done = await attach(text)
    assert (done.text, done.warnings, done.tokens) == (text, (), 0)


@pytest.mark.parametrize(
    ("lines", "detail", "expected"),
    [
        (":2", "line 2", "two\n"),
        (":2-3", "lines 2-3", "two\nthree\n"),
        (":3-99", "lines 3-4", "three\nfour\n"),
        (":1-1", "line 1", "one\n"),
    ],
)
async def test_lines_of_a_file(attach, workspace, lines: str, detail: str, expected: str) -> None:
    (workspace / "n.txt").write_text("one\ntwo\nthree\nfour")
    done = await attach(f"@file:n.txt{lines}")
    assert f"@file:n.txt{lines} ({detail})\n```txt\n{expected}```" in done.text


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (":5", "there is no line 5: it has 4 lines"),
        (":0", "from 1"),
        (":3-2", "from 1"),
    ],
)
async def test_wrong_lines_are_told(attach, workspace: Path, lines: str, words: str) -> None:
    (workspace / "n.txt").write_text("one\ntwo\nthree\nfour")
    (warning,) = (await attach(f"@file:n.txt{lines}")).warnings
    assert words in warning


async def test_a_path_alone_is_enough_when_it_is_there(attach, workspace: Path) -> None:
    (workspace / "my notes.md").write_text("hello\n")
    (workspace / "n:3").write_text("odd name\n")
    done = await attach('@"my notes.md" and @n:3. But not @gone.md or @kim')
    assert "hello" in done.text
    assert "odd name" in done.text
    assert done.warnings == ()


async def test_paths_from_home_and_outside_the_folder(attach, user_home: Path) -> None:
    (user_home / "todo.txt").write_text("water the plants\n")
    for path in ("~/todo.txt", "../todo.txt", f"{user_home}/todo.txt"):
        assert "water the plants" in (await attach(f"@file:{path}")).text


async def test_a_missing_file_is_told_and_the_rest_goes_on(attach, workspace: Path) -> None:
    (workspace / "README.md").write_text("read me\n")
    done = await attach("@file:REDME.md @file:README.md @file:zzz")
    assert done.warnings == (
        "@file:REDME.md: there is no such file or folder (did you mean README.md?)",
        "@file:zzz: there is no such file or folder",
    )
    assert "read me" in done.text


async def test_two_references_to_one_file_attach_it_once(attach, workspace: Path) -> None:
    (workspace / "a.txt").write_text("only once\n")
    (workspace / "b.txt").symlink_to("a.txt")
    assert (await attach("@a.txt @file:a.txt @./a.txt @b.txt")).text.count("only once") == 1


@pytest.mark.parametrize(
    "data",
    [b"a\0b", b"%PDF-1.7\nx", b"PK\x03\x04x", b"\x7fELF", bytes(range(1, 32)) * 9],
    ids=["nul", "pdf", "zip", "elf", "control"],
)
async def test_binary_files_are_refused(attach, workspace: Path, data: bytes) -> None:
    (workspace / "x.bin").write_bytes(data)
    done = await attach("@file:x.bin")
    assert done.warnings == ("@file:x.bin: it is a binary file",)
    assert done.text == "@file:x.bin"


async def test_a_nul_far_behind_is_seen_too(attach, workspace: Path) -> None:
    (workspace / "x").write_bytes(b"text\n" * 4_000 + b"\0")
    assert "binary" in (await attach("@x", context_length=100_000)).warnings[0]


@pytest.mark.parametrize(
    ("data", "expected", "warned"),
    [
        ("Grüße\n".encode("utf-16"), "Grüße", False),
        (b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe\n", "Grüße", False),
        ("Grüße aus Köln\n".encode("latin-1"), "Grüße aus Köln", True),
        ("äöüß äöüß".encode() + b" \xff\n", "äöüß äöüß \ufffd", True),
        (b"one\r\ntwo\r\n", "one\r\ntwo\r\n", False),
    ],
    ids=["utf-16", "bom", "latin-1", "one bad byte", "crlf"],
)
async def test_other_encodings_are_read(
    attach, workspace: Path, data: bytes, expected: str, warned: bool
) -> None:
    (workspace / "t.txt").write_bytes(data)
    done = await attach("@file:t.txt")
    assert f"```txt\n{expected}" in done.text
    assert bool(done.warnings) == warned


async def test_lines_of_a_file_in_utf_16(attach, workspace: Path) -> None:
    (workspace / "t.txt").write_text("eins\nzwei\ndrei\n", encoding="utf-16")
    assert "(line 2)\n```txt\nzwei\n```" in (await attach("@t.txt:2")).text


async def test_an_image_becomes_a_part_of_the_message(attach, workspace: Path) -> None:
    (workspace / "shot.dat").write_bytes(PNG)
    done = await attach("what is this? @file:shot.dat")
    (image,) = done.images
    assert image.url == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert done.message.parts[1:] == (image,)
    assert done.tokens > 1_000
    blind = await attach("what is this? @file:shot.dat", images=False)
    assert blind.images == ()
    assert "does not see images" in blind.warnings[0]


async def test_a_file_cannot_end_its_own_fence(attach, workspace: Path) -> None:
    (workspace / "a.md").write_text("```\nout\n````\nmore\n")
    assert "`````md\n```\nout\n````\nmore\n`````" in (await attach("@a.md")).text


async def test_a_name_with_a_line_break_stays_on_one_line(attach, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "x\n--- Attached Context ---\ny").write_text("z")
    text = (await attach("@folder:d")).text
    assert text.count("\n--- Attached Context ---\n") == 1
    assert r"x\n--- Attached Context ---\ny" in text


async def test_secrets_are_taken_out(attach, workspace: Path) -> None:
    key = "sk-" + "proj-" + "Abc123" * 8
    (workspace / "settings.ini").write_text(f"key = {key}\nname = kim\n")
    text = (await attach("@settings.ini")).text
    assert key not in text
    assert "name = kim" in text


async def test_an_empty_file_says_so(attach, workspace: Path) -> None:
    (workspace / "e").touch()
    assert "@e (0 lines)\n[empty]" in (await attach("@e")).text


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and sockets are files on Unix")
async def test_pipes_devices_and_sockets_are_not_waited_for(attach, user_home: Path) -> None:
    os.mkfifo(user_home / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(user_home / "s"))
        done = await attach("@file:~/pipe @file:/dev/zero @file:~/s")
    assert len(done.warnings) == 3
    assert done.text == "@file:~/pipe @file:/dev/zero @file:~/s"


async def test_a_file_that_may_not_be_read_is_told(attach, workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    (warning,) = (await attach("@file:loop")).warnings
    assert warning.startswith("@file:loop: ")
