"""Slash commands about the project: changes, prompts, commits, further folders."""

import json
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer
from tests.workspace import run_git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The working folder of `talking`, as a repository with one commit."""
    folder = tmp_path / "work"
    folder.mkdir()
    for arguments in (
        ("init", "--quiet", "--initial-branch=main"),
        ("config", "user.name", "Ann"),
        ("config", "user.email", "ann@example.com"),
    ):
        run_git(*arguments, folder=folder)
    (folder / "old.txt").write_text("one\n")
    run_git("add", "-A", folder=folder)
    run_git("commit", "--quiet", "-m", "start", folder=folder)
    return folder


def write_call(name: str, text: str) -> ToolCall:
    arguments = {"path": name, "content": text}
    return ToolCall(f"c-{name}", "write_file", json.dumps(arguments))


def last_message(server: ModelServer) -> str:
    return str(server.calls[-1].body["messages"][-1]["content"])


async def test_diff_shows_changes_of_this_session(talking, tmp_path: Path) -> None:
    async with talking([write_call("new.txt", "hello\n"), "done"]) as talk:
        assert await talk.say("/diff") == "Changes in this session: none"
        await talk.say("write it")
        shown = await talk.say("/diff")
        assert shown.startswith("Changes since the first edit of this session:\n\n```diff\n")
        assert "+hello" in shown
        assert "is not in a git repository" in await talk.say("/diff git")


async def test_diff_shows_uncommitted_changes_of_a_repository(talking, repository: Path) -> None:
    (repository / "old.txt").write_text("two\n")
    (repository / "loose.txt").write_text("x")
    async with talking([]) as talk:
        shown = await talk.say("/diff")
    assert shown.startswith("Uncommitted changes:")
    assert "-one\n+two" in shown
    assert "Untracked: `loose.txt`" in shown


async def test_init_and_review_send_prompts(talking, repository: Path) -> None:
    async with talking(["written", "reviewed"]) as talk:
        await talk.say("/init the tests")
        assert "AGENTS.md" in last_message(talk.server)
        assert last_message(talk.server).endswith("the tests")
        assert "there are no uncommitted changes" in await talk.say("/review")
        (repository / "old.txt").write_text("two\n")
        await talk.say("/review")
        assert " M old.txt" in last_message(talk.server)


async def test_commit_names_the_staged_files_or_all(talking, repository: Path) -> None:
    (repository / "old.txt").write_text("two\n")
    (repository / "staged.txt").write_text("x")
    async with talking(["all", "some"]) as talk:
        await talk.say("/commit")
        asked = last_message(talk.server)
        assert "git add -A && git commit -F -" in asked
        assert "?? staged.txt" in asked
        run_git("add", "staged.txt", folder=repository)
        await talk.say("/commit")
        asked = last_message(talk.server)
        assert "the staged changes" in asked
        assert "old.txt" not in asked
        assert "git add" not in asked


async def test_commit_and_review_need_a_repository(talking) -> None:
    async with talking([]) as talk:
        assert "is not in a git repository" in await talk.say("/commit")
        assert "is not in a git repository" in await talk.say("/review")


async def test_added_folder_is_workspace_until_the_session_ends(talking, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = str(other / "x.txt")
    script = [write_call(path, "1"), "asked", write_call(path, "2"), "done"]
    async with talking(script) as talk:
        await talk.say("write there")
        assert "outside the workspace" in str(talk.server.calls[-1].body["messages"][-1])
        assert "there is no folder" in await talk.say("/add-dir ../nowhere")
        assert "cannot be a workspace" in await talk.say("/add-dir ~")
        assert f"`{other}` belongs to the workspace" in await talk.say("/add-dir ../other")
        assert str(other) in await talk.say("/add-dir")
        assert str(other) in await talk.say("/permissions")
        await talk.say("write there again")
        assert (other / "x.txt").read_text() == "2"
        assert f"The user added {other}" in str(talk.server.calls[-2].body["messages"])
        await talk.say("/new")
        assert str(other) not in await talk.say("/add-dir")


async def test_context_adds_up_and_names_its_parts(talking, repository: Path) -> None:
    (repository / "AGENTS.md").write_text("Use tabs. " * 400)
    async with talking(["fine"]) as talk:
        assert "nothing was sent yet" in await talk.say("/context")
        await talk.say("hello")
        shown = await talk.say("/context")
        session = talk.app.session(talk.agent)
        parts = session.request_parts()
        total = session.context_usage().tokens
        assert abs(sum(parts.values()) - total) <= len(parts)
        assert f"{total:,} of " in shown
        sent = talk.server.calls[-1].body
        assert len(sent["tools"]) == len(talk.agent.base_request.tools)
        assert parts["project files"] > 4000 / 3 * 0.5
        for name in ("instructions", "tools: file", "messages and attachments", "free"):
            assert f"| {name} | " in shown


async def test_permissions_show_mode_and_rules(talking) -> None:
    settings = "command_allowlist: [recursive delete]\napprovals: {effects: {web_search: deny}}\n"
    async with talking([], settings) as talk:
        shown = await talk.say("/permissions")
        assert "- Dangerous calls: manual: ask before dangerous calls" in shown
        assert "- `web_search`: deny" in shown
        assert "recursive delete" in shown
        await talk.say("/yolo")
        assert "- Dangerous calls: off: everything is allowed" in await talk.say("/permissions")


AUTO = "git: {auto_commit: true}\n"


def log_of(folder: Path) -> list[str]:
    return run_git("log", "--format=%s", folder=folder).split("\n")[:-1]


async def test_auto_commit_takes_only_files_of_the_turn(talking, repository: Path) -> None:
    (repository / "mine.txt").write_text("draft")
    (repository / "staged.txt").write_text("draft")
    run_git("add", "staged.txt", folder=repository)
    script = [write_call("new.txt", "1"), "done", "nothing to do"]
    async with talking(script, AUTO) as talk:
        await talk.say("add the file new.txt\nwith one line")
        assert log_of(repository) == ["add the file new.txt", "start"]
        names = run_git("show", "--format=", "--name-only", "HEAD", folder=repository).split()
        assert names == ["new.txt"]
        state = run_git("status", "--porcelain", folder=repository)
        assert state == "A  staged.txt\n?? mine.txt\n"
        await talk.say("only talk")
        assert len(log_of(repository)) == 2
        assert "git revert" not in await talk.say("/undo")
        assert "git revert" in await talk.say("/undo")


async def test_auto_commit_leaves_out_files_with_changes_of_the_user(
    talking, repository: Path
) -> None:
    (repository / "old.txt").write_text("my draft\n")
    change = ToolCall("c1", "terminal", json.dumps({"command": "echo more >> old.txt"}))
    async with talking([change, "done"], AUTO) as talk:
        await talk.say("add a line")
    assert log_of(repository) == ["start"]


async def test_refused_auto_commit_leaves_the_index_as_it_was(talking, repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no commits today\nexit 1\n")
    hook.chmod(0o755)
    async with talking([write_call("new.txt", "1"), "done"], AUTO) as talk:
        await talk.say("add it")
        notices = [str(event) for event in talk.events if "no commits today" in str(event)]
    assert notices, "the hook ran and its answer is shown"
    assert log_of(repository) == ["start"]
    assert run_git("status", "--porcelain", folder=repository) == "?? new.txt\n"


async def test_added_folder_is_writable_in_the_sandbox(talking, tmp_path: Path) -> None:
    other = Path.home() / "other"
    other.mkdir()
    command = {"command": f"echo hi > {other}/x.txt"}
    script = [
        ToolCall("c1", "terminal", json.dumps(command)),
        "no",
        ToolCall("c2", "terminal", json.dumps(command)),
        "yes",
    ]
    async with talking(script, "terminal: {backend: sandbox}\n") as talk:
        await talk.say("/yolo")
        await talk.say("write there")
        assert not (other / "x.txt").exists()
        await talk.say(f"/add-dir {other}")
        await talk.say("write there")
        assert (other / "x.txt").read_text() == "hi\n"
