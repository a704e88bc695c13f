"""Attaching folders."""

from pathlib import Path


def entries(text: str) -> list[str]:
    return text.split("```\n", 1)[1].rsplit("\n```", 1)[0].splitlines()


async def test_a_folder_is_a_list_of_names(attach, workspace: Path) -> None:
    (workspace / "src/deep").mkdir(parents=True)
    (workspace / "src/a.py").write_text("12345")
    (workspace / "src/deep/b.py").touch()
    (workspace / "src/link").symlink_to("deep")
    for text in ("@folder:src", "@src/", "@src", "@file:src"):
        done = await attach(text)
        assert f"{text} (4 entries)" in done.text
        assert entries(done.text) == ["a.py  5 B", "deep/", "deep/b.py  0 B", "link (link)"]


async def test_a_large_folder_shows_what_is_near_the_top(attach, workspace: Path) -> None:
    for number in range(150):
        (workspace / f"d{number:03}").mkdir()
        (workspace / f"d{number:03}" / "inner").touch()
    done = await attach("@folder:.")
    shown = entries(done.text)
    assert len(shown) == 200
    assert "@folder:. (the first 200 entries)" in done.text
    assert sum(name.endswith("/") for name in shown) == 150


async def test_what_git_ignores_is_left_out(attach, workspace: Path, git) -> None:
    (workspace / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    for name in ("a.log", "keep.log", "build/x", "src/.gitignore", "src/b.tmp", "src/c.py"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("*.tmp\n" if name.endswith("ignore") else "")
    names = [line.split("  ")[0] for line in entries((await attach("@folder:.")).text)]
    assert names == [".gitignore", "keep.log", "src/", "src/.gitignore", "src/c.py"]
    inner = [line.split("  ")[0] for line in entries((await attach("@folder:src")).text)]
    assert inner == [".gitignore", "c.py"]


async def test_an_ignored_folder_is_shown_when_it_is_asked_for(attach, workspace, git) -> None:
    (workspace / ".gitignore").write_text("build/\n*.log\n")
    (workspace / "build/sub").mkdir(parents=True)
    (workspace / "build/sub/x.log").touch()
    assert entries((await attach("@folder:build")).text) == ["sub/", "sub/x.log  0 B"]


async def test_a_file_is_no_folder_and_an_empty_one_says_so(attach, workspace: Path) -> None:
    (workspace / "f").touch()
    (workspace / "e").mkdir()
    done = await attach("@folder:f @folder:e @folder:gone")
    assert done.warnings[0] == "@folder:f: it is not a folder"
    assert "no such file or folder" in done.warnings[1]
    assert "@folder:e (0 entries)\n[empty]" in done.text
