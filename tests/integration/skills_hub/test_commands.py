"""`hermes skills …` as a person and as a script would use it."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.core.errors import HermesError, UsageError
from hermes.skills.hub.contents import HubError, InstallRefused, NotAvailable
from tests.integration.skills_hub.samples import dangerous, doubtful
from tests.integration.skills_hub.wire import Files, GitHub, SkillsSh, Static, answer, below, skill

PDF = skill("pdf", "Old words.")


def write(path: Path, files: Files) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def repo(github: GitHub) -> GitHub:
    github.commit("any/repo", below("pdf", PDF))
    return github


def test_community_skill_is_installed_after_warning_and_confirmation(hermes, repo, hermes_home):
    code, out, _ = hermes("install", "any/repo/pdf", typed="y\n")
    assert code == 0
    assert "third party" in out
    assert "trust:    community" in out
    assert (hermes_home / "skills/.hub/skills/pdf/SKILL.md").is_file()
    code, out, _ = hermes("install", "any/repo/pdf")
    assert (code, "no newer version" in out) == (0, True)


def test_an_answer_that_is_not_yes_changes_nothing(hermes, repo: GitHub, hermes_home: Path):
    code, out, _ = hermes("install", "any/repo/pdf", typed="\n")
    assert (code, "left as it is" in out) == (1, True)
    assert not (hermes_home / "skills/.hub/skills").exists()
    assert list((hermes_home / "skills/.hub/quarantine").iterdir()) == []


def test_ctrl_c_ends_the_question_at_once(hermes_home: Path, tmp_path: Path):
    folder = write(tmp_path / "pdf", PDF)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "skills", "install", str(folder)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1024)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    os.close(ours)
    assert list((hermes_home / "skills/.hub/quarantine").iterdir()) == []


def test_install_without_a_terminal_needs_yes(hermes, repo: GitHub, hermes_home: Path):
    with pytest.raises(UsageError, match="--yes"):
        hermes("install", "any/repo/pdf")
    assert list((hermes_home / "skills/.hub/quarantine").iterdir()) == []
    assert hermes("install", "any/repo/pdf", "--yes")[0] == 0


def test_findings_are_shown_and_force_is_named_where_it_helps(hermes, github: GitHub):
    github.commit("any/repo", {**below("odd", doubtful("odd")), **below("bad", dangerous("bad"))})
    with pytest.raises(InstallRefused) as doubt:
        hermes("install", "any/repo/odd", "--yes")
    assert "--force" in doubt.value.hint
    with pytest.raises(InstallRefused) as danger:
        hermes("install", "any/repo/bad", "--yes", "--force")
    assert "--force" not in danger.value.hint
    code, out, _ = hermes("inspect", "bad")
    assert "is in quarantine since" in out
    assert "critical" in out
    assert "bad" in hermes("quarantine")[1]
    github.commit("any/repo", {**below("odd", doubtful("odd")), **below("bad", skill("bad"))})
    assert "nothing suspicious" in hermes("inspect", "any/repo/bad")[1], "repaired meanwhile"
    assert "deleted 2 refused skills" in hermes("quarantine", "--clean")[1]
    assert hermes("quarantine", "--json")[1] == "[]\n"
    code, out, _ = hermes("install", "any/repo/odd", "--yes", "--force")
    assert (code, "caution" in out) == (0, True)


def test_inspecting_installs_nothing(hermes, repo: GitHub, hermes_home: Path):
    _code, out, _ = hermes("inspect", "any/repo/pdf", "--json")
    facts = json.loads(out)
    assert (facts["name"], facts["trust"], facts["allowed"]) == ("pdf", "community", True)
    assert "Old words." in hermes("inspect", "any/repo/pdf", "--text")[1]
    assert not (hermes_home / "skills/.hub/skills").exists()


def test_an_update_shows_the_difference_and_asks(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    assert hermes("check")[1] == "pdf: current\n"
    repo.commit("any/repo", below("pdf", skill("pdf", "New words.")))
    assert "pdf: update available" in hermes("check")[1]
    with pytest.raises(UsageError, match="--yes"):
        hermes("update")
    code, out, _ = hermes("update", typed="n\n")
    assert code == 1
    assert "-Old words.\n" in out
    assert "+New words.\n" in out
    assert hermes("update", "pdf", "--yes")[0] == 0
    assert b"New words." in (hermes_home / "skills/.hub/skills/pdf/SKILL.md").read_bytes()
    assert json.loads(hermes("check", "--json")[1]) == [
        {"name": "pdf", "state": "current", "reason": ""}
    ]


def test_update_does_not_overwrite_local_changes_unasked(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    file = hermes_home / "skills/.hub/skills/pdf/SKILL.md"
    file.write_bytes(file.read_bytes() + b"My own words.\n")
    repo.commit("any/repo", below("pdf", skill("pdf", "New words.")))
    code, _out, err = hermes("update", "--yes")
    assert code == 1
    assert "pdf was changed here: SKILL.md" in err
    code, out, _err = hermes("update", typed="n\n")
    assert (code, "Replace the changes" in out) == (1, True)
    assert b"My own words." in file.read_bytes()
    assert hermes("update", "--yes", "--force")[0] == 0
    assert b"New words." in file.read_bytes()


def test_a_wrong_name_is_refused_before_anything_is_updated(hermes, repo, hermes_home):
    hermes("install", "any/repo/pdf", "--yes")
    repo.commit("any/repo", below("pdf", skill("pdf", "New words.")))
    with pytest.raises(HubError, match="not installed"):
        hermes("update", "pdf", "word", "--yes")
    assert b"Old words." in (hermes_home / "skills/.hub/skills/pdf/SKILL.md").read_bytes()


def test_install_warns_that_an_own_skill_hides_the_installed_one(hermes, repo, hermes_home):
    write(hermes_home / "skills/pdf", skill("pdf", "Mine."))
    _code, _out, err = hermes("install", "any/repo/pdf", "--yes")
    assert "your own skill in" in err
    assert "counts instead" in err


def test_a_skill_named_like_a_category_does_not_take_its_place(hermes, github, hermes_home):
    github.commit("any/repo", {**below("pdf", PDF), **below("office", skill("office"))})
    hermes("install", "any/repo/pdf", "--category", "office", "--yes")
    with pytest.raises(InstallRefused) as refused:
        hermes("install", "any/repo/office", "--yes")
    assert "--category" in refused.value.hint
    assert hermes("audit")[0] == 0
    assert hermes("install", "any/repo/office", "--category", "work", "--yes")[0] == 0


def test_invalid_category_is_refused(hermes, repo: GitHub):
    with pytest.raises(UsageError, match="cannot be a category"):
        hermes("install", "any/repo/pdf", "--category", "../..", "--yes")


def test_disk_error_is_not_reported_as_a_bug(hermes, repo: GitHub, hermes_home: Path):
    (hermes_home / "skills").mkdir(parents=True)
    (hermes_home / "skills/.hub").write_text("in the way")
    with pytest.raises(HermesError, match=r"\.hub"):
        hermes("install", "any/repo/pdf", "--yes")


def test_an_update_that_is_refused_does_not_stop_the_others(hermes, github: GitHub):
    files = {**below("bad", skill("bad")), **below("pdf", PDF)}
    github.commit("any/repo", files)
    for name in ("bad", "pdf"):
        hermes("install", f"any/repo/{name}", "--yes")
    github.commit(
        "any/repo", {**below("bad", dangerous("bad")), **below("pdf", skill("pdf", "New words."))}
    )
    code, out, err = hermes("update", "--yes")
    assert code == 1
    assert "bad is not installed" in err
    assert "updated pdf" in out


def test_audit_fails_for_changed_files_until_reset(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    assert hermes("audit") == (0, "pdf: as installed (community)\n", "")
    (hermes_home / "skills/.hub/skills/pdf/extra.py").write_text("print(1)\n")
    code, out, _ = hermes("audit")
    assert code == 1
    assert "added    extra.py" in out
    with pytest.raises(UsageError) as unchanged:
        hermes("reset", "pdf")
    assert "--restore" in unchanged.value.hint
    assert hermes("reset", "pdf", "--restore", "--yes")[0] == 0
    assert hermes("audit")[0] == 0


def test_removing_needs_a_yes(hermes, repo: GitHub):
    hermes("install", "any/repo/pdf", "--yes")
    with pytest.raises(UsageError, match="--yes"):
        hermes("uninstall", "pdf")
    assert hermes("uninstall", "pdf", "--yes") == (0, "removed pdf\n", "")
    with pytest.raises(HubError, match="not installed"):
        hermes("uninstall", "pdf", "--yes")


def test_uninstall_reports_that_an_own_copy_stays(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    mark = b'{"name":"pdf","source":"hub","hash":""}'
    copy = write(hermes_home / "skills/pdf", {**skill("pdf", "Mine."), ".overlay.json": mark})
    code, out, err = hermes("uninstall", "pdf", "--yes")
    assert (code, out) == (0, "removed pdf\n")
    assert "stays, and counts; `hermes skills reset pdf` drops it" in err
    assert hermes("reset", "pdf", "--yes")[0] == 0
    assert not copy.exists()


def test_a_skill_that_is_installed_after_all_leaves_the_quarantine(hermes, github: GitHub):
    github.commit("any/repo", {**below("odd", doubtful("odd")), **below("two", doubtful("two"))})
    for name in ("odd", "two"):
        with pytest.raises(InstallRefused):
            hermes("install", f"any/repo/{name}", "--yes")
    hermes("install", "any/repo/odd", "--yes", "--force")
    assert [one["name"] for one in json.loads(hermes("quarantine", "--json")[1])] == ["two"]


@pytest.mark.parametrize("name", ["clawhub", "lobehub"])
def test_a_source_that_cannot_be_asked_is_not_offered(hermes, capsys, name):
    for action in ("browse", "search", "install", "inspect"):
        with pytest.raises(SystemExit):
            hermes(action, "--help")
        assert name not in capsys.readouterr().out
        with pytest.raises(SystemExit):
            hermes(action, "pdf", "--source", name)
        assert f"{name} is not supported yet; most of its skills" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            hermes(action, "pdf", "--source", "githup")
        assert "there is no source githup; one of official, github" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [60, 150])
def test_lists_are_as_wide_as_the_terminal(hermes, repo, hermes_home, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    head = f"---\nname: long\ndescription: {'many words ' * 40}\n---\nX.\n"
    write(hermes_home / "skills/long", {"SKILL.md": head.encode()})
    hermes("tap", "add", "any/repo")
    repo.commit("any/repo", below("long", {"SKILL.md": head.encode()}))
    for words in (("list", "--source", "user"), ("browse", "--source", "tap")):
        longest = max(len(line) for line in hermes(*words)[1].splitlines())
        assert longest == columns - 4, "a conversation puts a frame of four around it"
    program = [sys.executable, "-m", "hermes", "skills", "list", "--source", "user"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()[-1]) == columns


def test_taps_are_checked_searched_and_removed(hermes, repo: GitHub, site: Static):
    assert hermes("tap", "add", "any/repo") == (0, "added any/repo with 1 skill\n", "")
    assert "already" in hermes("tap", "add", "https://github.com/any/repo")[1]
    assert "any/repo/pdf" in hermes("browse")[1]
    site.pages["/.well-known/skills/index.json"] = answer({"skills": [{"name": "word"}]})
    hermes("tap", "add", site.url)
    assert hermes("tap", "list", "--json")[1].count('"') == 4
    with pytest.raises(HubError):
        hermes("tap", "add", "no/body")
    assert hermes("tap", "remove", "any/repo")[0] == 0
    with pytest.raises(UsageError, match="not a tap"):
        hermes("tap", "remove", "any/repo")


def test_invalid_index_entries_are_reported(hermes, site: Static):
    page = {"skills": [{"name": "pdf", "files": 1}, {"name": "word", "files": ["SKILL.md"]}]}
    site.pages["/.well-known/skills/index.json"] = answer(page)
    with pytest.raises(HubError, match="offers no skill pdf"):
        hermes("inspect", f"{site.url}#pdf")
    site.pages["/.well-known/skills/word/SKILL.md"] = answer(skill("word")["SKILL.md"])
    code, out, err = hermes("inspect", f"{site.url}#word")
    assert (code, "What word does" in out) == (0, True)
    assert "warning: the index of 127.0.0.1: 1 skill left out" in err


def test_a_search_names_the_sources_that_failed(hermes, repo: GitHub, skills_sh: SkillsSh):
    skills_sh.entries = [
        {"id": "a", "skillId": "pdf", "name": "pdf", "installs": 1234, "source": "any/repo"}
    ]
    _code, out, err = hermes("search", "pdf")
    assert "skills-sh/any/repo/pdf  (1,234 installs)" in out
    assert "warning: github:" in err
    assert json.loads(hermes("search", "pdf", "--json")[1])["offers"][0]["name"] == "pdf"


def test_a_search_covers_skills_on_this_machine_also_offline(hermes, monkeypatch):
    for name in ("GITHUB_API_URL", "SKILLS_API_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    code, out, err = hermes("search", "PDF")
    assert code == 0 and out.startswith("on this machine:\npdf-forms\n    Fill PDF forms")
    assert "connection refused" in err and "Errno" not in err
    found = json.loads(hermes("search", "pdf", "--json")[1])
    assert "ocr-and-documents" in [offer["name"] for offer in found["installed"]]


def test_a_folder_with_several_skills_lists_them_and_all_are_installed(hermes, tmp_path: Path):
    for name in ("skills/one", "skills/two", "skills/two/inner"):
        write(tmp_path / "repo" / name, skill(Path(name).name))
    with pytest.raises(NotAvailable, match="has 2 skills") as raised:
        hermes("install", f"{tmp_path}/repo", "--yes")
    assert f"{tmp_path}/repo/skills/one, {tmp_path}/repo/skills/two; --all" in raised.value.hint
    write(tmp_path / "repo/skills/bad", dangerous("bad"))
    code, out, err = hermes("install", f"{tmp_path}/repo", "--all", "--yes")
    assert out.startswith(f"3 skills:\n{tmp_path}/repo/skills/bad\n")
    assert "installed one in" in out and "installed two in" in out
    assert (code, "bad: bad is not installed" in err) == (1, True)
    assert hermes("install", f"{tmp_path}/repo/skills", "--all")[1].count("installed already") == 2


def test_a_folder_above_the_only_skill_is_enough(hermes, tmp_path: Path):
    write(tmp_path / "repo/skills/one", skill("one"))
    assert "installed one in" in hermes("install", f"{tmp_path}/repo", "--yes")[1]
    with pytest.raises(NotAvailable, match="there are no skills in"):
        hermes("install", f"{tmp_path}/repo/none", "--all")


def test_all_skills_of_a_repository_are_installed(hermes, github: GitHub):
    github.commit("any/repo", {**below("one", skill("one")), **below("two", skill("two"))})
    with pytest.raises(NotAvailable) as raised:
        hermes("install", "any/repo", "--yes")
    assert raised.value.hint == "one of one, two; --all installs all of them"
    out = hermes("install", "any/repo", "--all", "--yes")[1]
    assert "installed one in" in out and "installed two in" in out
    with pytest.raises(UsageError, match="does not say which skills it has"):
        hermes("install", "skills-sh/any/repo", "--all")


def test_a_search_ranks_bundled_and_optional_skills_by_what_they_are_for(hermes, monkeypatch):
    for name in ("GITHUB_API_URL", "SKILLS_API_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert hermes("search", "make", "slides")[1].startswith("on this machine:\nslides-pptx\n")
    assert hermes("search", "pods", "crashing")[1].count("official/devops/kubernetes\n") == 1
    hermes("install", "kubernetes")
    found = json.loads(hermes("search", "pods crashing", "--json")[1])
    assert found["installed"][0]["identifier"] == "kubernetes"
    assert "kubernetes" not in [offer["name"] for offer in found["offers"]]


def test_browse_lists_the_skills_on_this_machine_before_those_to_install(hermes):
    here, _, offered = hermes("browse")[1].partition("\n\nto install:\n")
    assert here.startswith("on this machine:\n") and "\nsqlite\n" in here
    assert "official/devops/kubernetes\n" in offered and "\nsqlite\n" not in offered
    assert "on this machine:" not in hermes("browse", "--source", "official")[1]


def test_the_list_tells_hidden_broken_and_changed_ones(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    own = hermes_home / "skills"
    write(own / "notes/mac-notes", skill("mac-notes"))
    head = "---\nname: mac-notes\ndescription: d\nplatforms: [windows]\n---\nDo it.\n"
    (own / "notes/mac-notes/SKILL.md").write_text(head)
    write(own / "worse", {"SKILL.md": b"\0\0"})
    write(
        own / "pdf",
        {**skill("pdf", "Mine."), ".overlay.json": b'{"name":"pdf","source":"hub","hash":""}'},
    )
    rows = {row["name"]: row for row in json.loads(hermes("list", "--json")[1])}
    assert "windows" in rows["mac-notes"]["hidden"]
    assert "binary" in rows["worse"]["broken"]
    assert (rows["pdf"]["source"], rows["pdf"]["changed_copy_of"]) == ("user", "hub")
    out = hermes("list")[1]
    assert "hidden: only for windows" in out
    assert "broken: it holds binary data" in out
    assert "your copy of the hub one" in out
    assert "pdf" not in hermes("list", "--source", "hub")[1]
    (own / "pdf/.overlay.json").unlink()
    assert "hides the hub one" in hermes("list")[1]
    (own / "pdf").rename(own / ".away")
    assert "pdf [hub, community]" in hermes("list", "--source", "github")[1]


def test_reset_of_a_changed_copy_can_be_undone(hermes, repo: GitHub, hermes_home: Path):
    hermes("install", "any/repo/pdf", "--yes")
    mark = b'{"name":"pdf","source":"hub","hash":""}'
    copy = write(hermes_home / "skills/pdf", {**skill("pdf", "Mine."), ".overlay.json": mark})
    assert "Mine." in hermes("view", "pdf")[1]
    with pytest.raises(UsageError, match="--yes"):
        hermes("reset", "pdf")
    code, out, _ = hermes("reset", "pdf", "--yes")
    assert code == 0
    assert "the hub skill counts again" in out
    assert not copy.exists()
    assert "Old words." in hermes("view", "pdf")[1]
    undo = out.split("`")[1].removeprefix("hermes skills ").split()
    hermes(*undo, "--yes")
    assert "Mine." in hermes("view", "pdf")[1]


def test_a_file_of_a_skill_is_shown_and_nothing_else(hermes, hermes_home: Path):
    write(hermes_home / "skills/own", skill("own", files={"references/a.md": b"# A\n"}))
    assert hermes("view", "own", "references/a.md")[1] == "# A\n"
    (hermes_home / "secret").write_text("x")
    with pytest.raises(UsageError, match="outside"):
        hermes("view", "own", "../../secret")


def test_the_settings_of_skills_are_shown_and_set(hermes, hermes_home: Path):
    head = (
        "---\nname: wiki\ndescription: d\nmetadata:\n  hermes:\n    config:\n"
        "      - key: wiki.path\n        description: Where it is\n        default: ~/wiki\n"
        "---\nX.\n"
    )
    write(hermes_home / "skills/wiki", {"SKILL.md": head.encode()})
    assert "wiki.path = ~/wiki  (the default)" in hermes("config")[1]
    assert hermes("config", "wiki.path", "/srv/wiki")[0] == 0
    assert "wiki.path = /srv/wiki\n" in hermes("config")[1]
    with pytest.raises(UsageError, match="no skill has a setting"):
        hermes("config", "nothing.like", "1")


def test_a_snapshot_carries_everything_to_another_home(hermes, repo, hermes_home, tmp_path):
    hermes("install", "any/repo/pdf", "--yes", "--category", "office")
    write(hermes_home / "skills/notes/own", skill("own", files={"a.md": b"a\n"}))
    file = tmp_path / "all.tar.gz"
    assert hermes("snapshot", "export", str(file))[1] == f"wrote 2 skills to {file}\n"
    with pytest.raises(UsageError, match="exists"):
        hermes("snapshot", "export", str(file))
    with pytest.raises(UsageError, match="not a file"):
        hermes("snapshot", "export", str(tmp_path), "--force")
    hermes_home.rename(tmp_path / "old-home")
    code, out, _ = hermes("snapshot", "import", str(file))
    assert (code, out) == (0, "imported 2 skills\n")
    assert (hermes_home / "skills/notes/own/a.md").read_bytes() == b"a\n"
    assert hermes("audit")[0] == 0
    assert hermes("check")[1] == "pdf: current\n"
    assert "left alone" in hermes("snapshot", "import", str(file))[1]
    assert "own" in hermes("log")[1]


def test_a_snapshot_that_could_not_be_read_again_is_not_written(
    hermes, repo, hermes_home, tmp_path
):
    hermes("install", "any/repo/pdf", "--yes")
    shutil.rmtree(hermes_home / "skills/.hub/skills/pdf")
    with pytest.raises(HubError, match="pdf is gone"):
        hermes("snapshot", "export", str(tmp_path / "all.tar.gz"))
    hermes("reset", "pdf", "--restore", "--yes")
    own = write(hermes_home / "skills/own", skill("own"))
    (own / "link").symlink_to("/etc/passwd")
    with pytest.raises(HubError, match="own cannot be exported: link is a link"):
        hermes("snapshot", "export", str(tmp_path / "all.tar.gz"))
    assert not (tmp_path / "all.tar.gz").exists()


@pytest.mark.parametrize("arguments", [("--help",), ("tap",), ("snapshot",), ("list", "--json")])
def test_hub_is_a_command_of_the_program(arguments: tuple[str, ...]):
    done = subprocess.run(
        [sys.executable, "-m", "hermes", "skills", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
