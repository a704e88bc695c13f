"""Local files and files of a host behave alike, whatever programs the host has."""

import asyncio
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import BackendUnavailable, Interrupted, ToolArgumentsInvalid, ToolError
from hermes.terminal import Files, GrepQuery, GrepResult, LocalFiles, TextPage
from hermes.terminal.host_files import HostFiles, to_extended_regex
from hermes.terminal.host_shell import HostShell
from tests.cases import cases
from tests.integration.hosts.machine_host import MachineHost, programs

CASES = cases(__file__)

ODD = ["with space", "new\nline", "-dash", "quote'\"", "star*", "back\\slash", "$(touch x)", "é"]


@pytest.fixture(params=["walk", "ripgrep", "usual", "posix", "busybox"])
async def files(request, tmp_path, tmp_path_factory):
    work = tmp_path / "work"
    work.mkdir()
    if request.param in ("walk", "ripgrep"):
        program = "" if request.param == "walk" else shutil.which("rg")
        if program is None:
            pytest.skip("needs rg")
        yield LocalFiles(lambda: str(work), tmp_path / "home", ripgrep=program)
        return
    path = programs(request.param, tmp_path_factory.mktemp("p") / "bin", os.environ["PATH"])
    host = MachineHost({"PATH": path, "HOME": str(tmp_path / "home")}, tmp_path, noise="welcome!\n")
    shell = HostShell(host, cwd=str(work))
    yield HostFiles(host, shell)
    await shell.close()


@pytest.fixture
def work(tmp_path, files):
    return tmp_path / "work"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_raw(folder: Path, name: bytes, data: bytes) -> str:
    path = os.fsdecode(os.fsencode(folder) + b"/" + name)
    Path(path).write_bytes(data)
    return path


async def lines(files: Files, path: Path, offset: int = 1, limit: int = 10) -> TextPage:
    return await files.lines(str(path), offset=offset, limit=limit, longest=20)


async def test_a_page_of_a_file(files, work):
    path = work / "a"
    path.write_text("".join(f"line {n}\n" for n in range(1, 101)))
    assert await lines(files, path, offset=5, limit=2) == TextPage(("line 5", "line 6"), 100)
    assert await lines(files, path, offset=100) == TextPage(("line 100",), 100)
    assert await lines(files, path, offset=101) == TextPage((), 100)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", TextPage((), 0)),
        (b"\n", TextPage(("",), 1)),
        (b"one\ntwo\nthree", TextPage(("one", "two", "three"), 3)),
        (b"\xef\xbb\xbfone\r\ntwo\r\n", TextPage(("one", "two"), 2, crlf=True)),
        ("caf\xe9\n".encode("latin-1"), TextPage(("caf�",), 1, undecodable=True)),
        (b"\x7fELF\0\0", TextPage((), 0, binary=True)),
        ("text".encode("utf-16"), TextPage((), 0, binary=True)),
        ("é".encode() * 300_000 + b"\nshort\n", TextPage(("é" * 20 + " [… line cut]", "short"), 2)),
        (b"\\n %s $HOME\n", TextPage(("\\n %s $HOME",), 1)),
    ],
)
async def test_lines_are_decoded(files, work, data, expected):
    (work / "a").write_bytes(data)
    assert await lines(files, work / "a") == expected


async def test_first_lines_of_a_gigabyte_are_read_quickly(files, work):
    path = work / "huge"
    with path.open("wb") as file:
        file.write(b"one\n" * 3_000)
        file.truncate(1 << 30)
    page = await lines(files, path, limit=2)
    assert (page.lines, page.total, page.complete) == (("one", "one"), 3_000, False)


async def test_only_regular_files_are_read(files, work):
    os.mkfifo(work / "pipe")
    (work / "file").touch()
    for path, number in [
        (work / "pipe", errno.EINVAL),
        (work, errno.EISDIR),
        (work / "missing", errno.ENOENT),
        (work / "file/below", errno.ENOTDIR),
    ]:
        with pytest.raises(OSError) as caught:
            await lines(files, path)
        assert caught.value.errno == number
        with pytest.raises(OSError) as caught:
            await files.read(str(path), most=10)
        assert caught.value.errno == number


async def test_paths_are_resolved(files, work, tmp_path):
    (work / "sub/deep").mkdir(parents=True)
    (work / "link").symlink_to("sub/deep")
    (work / "absolute").symlink_to(work / "link")
    (work / "dangling").symlink_to("nowhere/else")
    for path, expected in [
        ("link/../new", work / "sub/new"),
        ("absolute/x/../y", work / "sub/deep/y"),
        ("dangling", work / "nowhere/else"),
        ("missing/../a//./b", work / "a/b"),
        (".", work),
        ("~/x", tmp_path / "home/x"),
        ("~", tmp_path / "home"),
        ("/a/../../b", Path("/b")),
        ("/", Path("/")),
    ]:
        assert await files.locate(path) == str(expected)
    with pytest.raises(OSError, match="null"):
        await files.locate("a\0b")


async def test_a_link_to_itself_ends(files, work):
    (work / "loop").symlink_to("loop")
    assert await files.locate("loop") == str(work / "loop")


@pytest.mark.parametrize("name", ODD)
async def test_odd_names(files, work, name):
    path = await files.locate(name)
    assert path == str(work / name)
    await files.write(path, b"x\n")
    assert (await files.read(path, most=9)) == b"x\n"
    assert (await lines(files, Path(path))).lines == ("x",)
    assert await files.names(str(work)) == [name]
    info = await files.stat(path)
    assert info is not None
    assert (info.kind, info.size) == ("file", 2)
    assert await files.find("*", str(work), CancelToken()) == [path]
    await files.remove(path)
    assert names_in(work) == []


async def test_names_that_are_not_utf_8(files, work):
    path = write_raw(work, b"caf\xe9.txt", b"hello\n")
    assert await files.names(str(work)) == ["caf\udce9.txt"]
    # The form a model is shown and sends back.
    assert await files.locate("caf\\xe9.txt") == path
    assert (await lines(files, Path(path))).lines == ("hello",)
    (work / "caf\\xe9.txt").touch()
    assert await files.locate("caf\\xe9.txt") == str(work / "caf\\xe9.txt")


async def test_kinds_sizes_and_times(files, work):
    os.mkfifo(work / "pipe")
    (work / "file").write_text("abc")
    (work / "link").symlink_to("file")
    os.utime(work / "file", ns=(1, 1_600_000_000_123_456_789))
    kinds = {}
    for name in ("pipe", "file", "link", ".", "missing", "file/below"):
        info = await files.stat(str(work / name))
        kinds[name] = info and (info.kind, info.size if info.kind == "file" else 0)
    assert kinds == {
        "pipe": ("other", 0),
        "file": ("file", 3),
        "link": ("file", 3),
        ".": ("folder", 0),
        "missing": None,
        "file/below": None,
    }
    info = await files.stat(str(work / "file"))
    assert info is not None
    assert info.modified_ns // 10**9 == 1_600_000_000


async def test_all_names_of_a_folder(files, work):
    for name in (".hidden", "..two", "a", "b c"):
        (work / name).touch()
    (work / "broken").symlink_to("nowhere")
    assert await files.names(str(work)) == ["..two", ".hidden", "a", "b c", "broken"]
    for path, number in [(work / "a", errno.ENOTDIR), (work / "missing", errno.ENOENT)]:
        with pytest.raises(OSError) as caught:
            await files.names(str(path))
        assert caught.value.errno == number


async def test_bytes_come_and_go_as_they_are(files, work):
    data = bytes(range(256)) * 40_000 + b"no end"
    path = str(work / "data")
    await files.write(path, data)
    assert (work / "data").read_bytes() == data
    assert await files.read(path, most=len(data)) == data
    with pytest.raises(OSError) as caught:
        await files.read(path, most=len(data) - 1)
    assert caught.value.errno == errno.EFBIG


async def test_writing_makes_folders_and_leaves_nothing_else(files, work):
    path = work / "a" / "b" / "c.txt"
    await files.write(str(path), b"one\r\n")
    assert path.read_bytes() == b"one\r\n"
    await files.write(str(path), b"")
    assert path.read_bytes() == b""
    assert names_in(path.parent) == ["c.txt"]


async def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(files, work):
    usual, new, script = work / "usual", work / "new", work / "run.sh"
    usual.touch()
    script.touch()
    # The kernel takes the set-user bit away when another user than root writes.
    mode = 0o4750 if os.geteuid() == 0 else 0o750
    script.chmod(mode)
    await files.write(str(new), b"x")
    await files.write(str(script), b"x")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    assert stat.S_IMODE(script.stat().st_mode) == mode


async def test_unwritable_targets_raise(files, work):
    (work / "file").write_text("old")
    os.mkfifo(work / "pipe")
    for path, number in [
        (work, errno.EISDIR),
        (work / "file/below", errno.ENOTDIR),
        (work / "pipe", errno.EINVAL),
        (work / ("n" * 300), errno.ENAMETOOLONG),
        (Path("/proc/nothing/here"), errno.ENOENT),
    ]:
        with pytest.raises(OSError) as caught:
            await files.write(str(path), b"new")
        assert caught.value.errno == number, path
    assert names_in(work) == ["file", "pipe"]
    assert (work / "file").read_text() == "old"


async def test_a_link_in_the_way_is_not_followed(files, work, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("old")
    (work / "folder").symlink_to(outside)
    (work / "link").symlink_to(outside / "file")
    for path in (work / "folder/file", work / "folder/new/x", work / "link"):
        with pytest.raises(OSError) as caught:
            await files.write(str(path), b"new")
        assert caught.value.errno == errno.ELOOP
    for path in (work / "folder/file", work / "link"):
        with pytest.raises(OSError) as caught:
            await files.remove(str(path))
        assert caught.value.errno == errno.ELOOP
    assert names_in(outside) == ["file"]
    assert (outside / "file").read_text() == "old"


async def test_one_file_is_removed(files, work):
    (work / "a").touch()
    (work / "b").touch()
    await files.remove(str(work / "a"))
    assert names_in(work) == ["b"]
    for path, number in [
        (work / "a", errno.ENOENT),
        (work / "no/a", errno.ENOENT),
        (work, errno.EISDIR),
    ]:
        with pytest.raises(OSError) as caught:
            await files.remove(str(path))
        assert caught.value.errno == number


def write_all(folder: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


@pytest.fixture
def tree(work):
    write_all(work, CASES["tree"])
    (work / "binary.py").write_bytes(b"\0\1value\n")
    return work


async def grep(files: Files, tree: Path, pattern: str, **options: object) -> GrepResult:
    return await files.grep(GrepQuery(pattern, str(tree), **options), CancelToken())  # type: ignore[arg-type]


def relative(paths: Iterable[str], tree: Path) -> list[str]:
    return [os.path.relpath(path, tree) for path in paths]


def short(grepped: GrepResult, tree: Path) -> list[str]:
    return [
        f"{os.path.relpath(hit.path, tree)}{':' if hit.match else '-'}{hit.line} {hit.text}"
        for hit in grepped.hits
    ]


@pytest.mark.parametrize(("glob", "expected"), CASES["files_by_name"])
async def test_files_by_name(files, tree, glob, expected):
    found = await files.find(glob, str(tree), CancelToken())
    assert relative(found, tree) == expected


async def test_rules_of_the_repository_hold_below_it(files, tree):
    found = await files.find("*.log", str(tree / "src"), CancelToken())
    assert relative(found, tree) == ["src/keep.log"]
    found = await files.find("*", str(tree / "build"), CancelToken())
    assert relative(found, tree) == ["build/out.py"]
    assert await files.find("*", str(tree / "a.py"), CancelToken()) == [str(tree / "a.py")]


async def test_ignore_rules_of_git_are_respected(files, tree):
    """Also .git/info/exclude, a repository within, and a rule that shows what is hidden."""
    write_all(tree, CASES["more"])
    for glob, expected in [
        ("*.tmp", ["inner/c.tmp"]),
        ("*.log", ["inner/b.log", "src/keep.log"]),
        ("*.yml", []),
        ("**/*.yml", [".github/f.yml"]),
    ]:
        found = await files.find(glob, str(tree), CancelToken())
        assert relative(found, tree) == expected
    assert (await grep(files, tree, "value", file_glob="**/*.yml")).counts


async def test_links_do_not_make_the_search_endless(files, work):
    (work / "loop").symlink_to(work)
    (work / "broken").symlink_to("nowhere")
    (work / "a.py").touch()
    (work / "b.py").symlink_to("a.py")
    found = await files.find("*", str(work), CancelToken())
    assert relative(found, work) == ["a.py", "b.py"]


async def test_lines_are_found_where_git_would_look(files, tree):
    found = await grep(files, tree, r"^value\b")
    counts = dict(zip(relative(found.counts, tree), found.counts.values(), strict=True))
    assert counts == {"a.py": 1, "b.txt": 1, "src/c.py": 2, "src/deep/d.py": 1, "src/keep.log": 1}
    assert short(found, tree)[:2] == ["a.py:2 value = 1", "b.txt:1 value here"]
    assert "src/deep/d.py:2 value" in short(found, tree)


async def test_protected_files_are_left_out(files, tree):
    (tree / "link.py").symlink_to(tree / "a.py")
    protected = os.path.realpath(tree / "a.py")
    found = await grep(
        files, tree, "value", is_protected=lambda path: os.path.realpath(path) == protected
    )
    assert {"a.py", "link.py"}.isdisjoint(relative(found.counts, tree))
    assert "b.txt" in relative(found.counts, tree)
    assert not any(hit.path == protected for hit in found.hits)


@pytest.mark.parametrize(("glob", "expected"), CASES["only_files_with_such_names"])
async def test_only_files_with_such_names(files, tree, glob, expected):
    found = await grep(files, tree, "value", file_glob=glob)
    assert relative(found.counts, tree) == expected


async def test_context_and_pages(files, tree):
    around = await grep(files, tree, "value =", file_glob="c.py", context=1)
    assert short(around, tree) == [
        "src/c.py-1 x", "src/c.py:2 value = 2", "src/c.py-3 y",
        "src/c.py-4 z", "src/c.py:5 value = 3", "src/c.py-6 w",
    ]  # fmt: skip
    second = await grep(files, tree, "^value", offset=1, limit=2)
    assert short(second, tree) == ["b.txt:1 value here", "src/c.py:2 value = 2"]
    assert sum(second.counts.values()) == 6


async def test_one_file_and_odd_bytes_can_be_searched(files, tree):
    found = await grep(files, tree / "build/out.py", r"v\w+e")
    assert list(found.counts.values()) == [1]
    path = write_raw(tree, b"caf\xe9 x.txt", b"caf\xe9 needle " + b"x" * 500_000 + b"\n")
    found = await grep(files, tree, "needle", longest=12)
    assert [(hit.path, hit.text) for hit in found.hits] == [(path, "caf� needle  [… line cut]")]


@pytest.mark.parametrize("pattern", ["(", "[a-", "*x", "a{2,1}"])
async def test_a_wrong_expression_is_explained(files, tree, pattern):
    with pytest.raises(ToolArgumentsInvalid, match="not a valid regular expression"):
        await grep(files, tree, pattern)


async def test_a_set_token_stops_the_search(files, tree):
    cancel = CancelToken()
    searching = asyncio.ensure_future(files.grep(GrepQuery("value", str(tree)), cancel))
    await asyncio.sleep(0)
    cancel.cancel("enough")
    with pytest.raises(Interrupted):
        await searching


@pytest.mark.parametrize(("pattern", "expected"), CASES["expressions_for_a_plain_grep"])
def test_expressions_for_a_plain_grep(pattern, expected):
    assert to_extended_regex(pattern) == expected


async def test_expression_unsupported_by_the_hosts_grep_is_reported(tmp_path):
    if shutil.which("busybox") is None:
        pytest.skip("needs busybox")
    (tmp_path / "a").write_text("x")
    path = programs("busybox", tmp_path / "bin", os.environ["PATH"])
    host = MachineHost({"PATH": path}, tmp_path)
    with pytest.raises(ToolError, match="does not know"):
        await grep(HostFiles(host, HostShell(host)), tmp_path / "a", "(?=x)")
    await host.close()


async def test_a_file_cut_off_on_its_way_leaves_the_old_one(tmp_path):
    class Cutting(MachineHost):
        """The connection breaks while data is sent: the program sees the end of its input."""

        async def start(self, argv, **options):
            running = await super().start(argv, **options)
            running.write = lambda data: type(running).write(running, data[:1000])
            return running

    (tmp_path / "file").write_text("old")
    host = Cutting({"PATH": os.environ["PATH"]}, tmp_path)
    with pytest.raises(OSError, match=re.escape("not all of it arrived")):
        await HostFiles(host, HostShell(host)).write(str(tmp_path / "file"), b"n" * 5_000)
    assert names_in(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"
    await host.close()


async def test_truncated_output_is_an_error(tmp_path):
    """`wc` is replaced by a program that takes the whole script down with it."""
    (tmp_path / "bin").mkdir()
    deadly = tmp_path / "bin/wc"
    deadly.write_text("#!/bin/sh\necho the line is dead >&2\nkill -9 0\n")
    deadly.chmod(0o755)
    (tmp_path / "file").touch()
    host = MachineHost({"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, tmp_path)
    with pytest.raises(BackendUnavailable, match="was lost: the line is dead"):
        await lines(HostFiles(host, HostShell(host)), tmp_path / "file")
    await host.close()
