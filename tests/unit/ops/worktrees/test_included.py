"""Ignored files that a worktree gets: .worktreeinclude."""

import os
from pathlib import Path


def put(path: Path, text: str = "x\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_listed_files_and_folders_are_copied(opened, repo: Path, told: list[str]) -> None:
    put(repo / ".worktreeinclude", "# what tests need\n.env\nnode_modules/\n*.secret\n!no.secret\n")
    put(repo / ".env", "KEY=1\n")
    (repo / ".env").chmod(0o600)
    for name in ("node_modules/p/i.js", "sub/.env", "a.secret", ":(top)b.secret", "no.secret"):
        put(repo / name)
    put(repo / "build/out")
    (repo / "node_modules/link").symlink_to("p/i.js")
    worktree = await opened()
    folder = worktree.folder
    assert (folder / ".env").read_text() == "KEY=1\n"
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    for name in ("node_modules/p/i.js", "node_modules/link", "sub/.env", ":(top)b.secret"):
        assert (folder / name).exists(), name
    for name in ("no.secret", "build", ".worktrees"):
        assert not (folder / name).exists(), name
    assert told == [".worktreeinclude: copied 6 files, 20 B"]
    (folder / ".env").write_text("changed\n")
    assert (repo / ".env").read_text() == "KEY=1\n"
    assert "removed" in await worktree.close()
    assert (repo / "node_modules/p/i.js").exists()


async def test_paths_that_leave_the_repository_bring_nothing(opened, repo, told, tmp_path) -> None:
    put(tmp_path / "outside.secret", "hush\n")
    (repo / "out.secret").symlink_to(tmp_path / "outside.secret")
    (repo / "build").symlink_to(tmp_path)
    put(repo / "in.secret")
    lines = ["../*", "/etc/passwd", str(tmp_path), "../outside.secret", "*.secret", "build/", "~/*"]
    put(repo / ".worktreeinclude", "\n".join(lines))
    worktree = await opened()
    names = sorted(path.name for path in worktree.folder.iterdir() if path.name != ".git")
    assert names == [".gitignore", "a.txt", "in.secret", "sub"]
    assert ".worktreeinclude: out.secret was not copied: it leads out of the repository" in told


async def test_a_folder_that_is_a_link_in_the_worktree_is_not_written_through(
    opened, repo: Path, git, told, tmp_path: Path
) -> None:
    (repo / "data").symlink_to(tmp_path)
    git("add", "data")
    git("commit", "--quiet", "-m", "a link")
    (repo / "data").unlink()
    put(repo / "data/x.secret")
    put(repo / ".worktreeinclude", "*.secret\n")
    await opened()
    assert list(tmp_path.iterdir()) == []
    assert told == [
        ".worktreeinclude: data/x.secret was not copied: its folder is a link in the worktree"
    ]


async def test_only_what_git_ignores_is_copied(opened, repo: Path, told) -> None:
    put(repo / "notes.md", "mine\n")
    put(repo / ".worktreeinclude", "*.md\na.txt\n")
    worktree = await opened()
    assert not (worktree.folder / "notes.md").exists()
    assert told == [".worktreeinclude: notes.md was not copied: git does not ignore it"]
    assert "removed" in await worktree.close()


async def test_pipes_and_repositories_inside_are_left_out(opened, repo, git, told) -> None:
    put(repo / ".worktreeinclude", "build/\n*.secret\n")
    os.mkfifo(repo / "p.secret")
    git("init", "--quiet", str(repo / "build/inner"))
    put(repo / "build/inner/f")
    put(repo / "build/ok")
    worktree = await opened()
    assert (worktree.folder / "build/ok").exists()
    assert not (worktree.folder / "build/inner/f").exists()
    assert not os.path.lexists(worktree.folder / "p.secret")


async def test_a_list_that_is_a_link_is_not_read(opened, repo: Path, told, tmp_path) -> None:
    put(repo / ".env")
    put(tmp_path / "list", ".env\n")
    (repo / ".worktreeinclude").symlink_to(tmp_path / "list")
    assert not ((await opened()).folder / ".env").exists()
