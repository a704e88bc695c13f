"""Which command lines are asked about, which are refused, and which pass."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.core.tool import Concern
from hermes.security import (
    PathGuard,
    ShellState,
    examine,
    examine_command,
    merge_concerns,
    shell_after,
)
from hermes.security.danger import catalog
from tests.cases import cases

CASES = cases(__file__)

FOLDER = Path(__file__).parent
WORK = "/home/user/work"
GUARD = PathGuard(Path("/home/user"), (Path(WORK),), (Path("/home/user/.hermes"),))


def corpus(name: str) -> list[str]:
    lines = (FOLDER / name).read_text("utf-8").split("\n")
    cases = [line.partition(" | ")[2] for line in lines if line and not line.startswith("#")]
    marks = str.maketrans({"⏎": "\n", "␛": "\x1b", "␍": "\r"})
    return [case.translate(marks) for case in cases]


DANGEROUS = corpus("dangerous.txt")
HARMLESS = corpus("harmless.txt")
DANGEROUS_INDEPENDENT = corpus("dangerous-independent.txt")
HARMLESS_INDEPENDENT = corpus("harmless-independent.txt")


def examined(command: str, folder: str = WORK) -> list[Concern]:
    return examine_command(command, GUARD, folder)


def kinds(command: str, folder: str = WORK) -> set[str]:
    return {concern.kind for concern in examined(command, folder)}


# One test for all lines: thousands of tests would take longer than the analysis. A failure names
# each line that is wrong.


def test_dangerous_corpus_is_detected_with_its_class() -> None:
    wrong = []
    for line in DANGEROUS:
        kind, _, command = line.partition(" :: ")
        found = {(concern.kind, concern.refused) for concern in examined(command)}
        if (kind.removeprefix("!"), kind.startswith("!")) not in found:
            wrong.append((line, found))
    assert wrong == []


def test_independent_dangerous_corpus_is_detected() -> None:
    commands = [line.partition(" :: ")[2] for line in DANGEROUS_INDEPENDENT]
    assert [command for command in commands if not examined(command)] == []


def test_harmless_corpora_raise_no_concern() -> None:
    asked = {c: kinds(c) for c in (*HARMLESS, *HARMLESS_INDEPENDENT) if examined(c)}
    assert asked == {}


def test_the_corpus_is_big_enough() -> None:
    assert len(set(DANGEROUS)) == len(DANGEROUS) >= 300
    assert len(set(HARMLESS)) == len(HARMLESS) >= 300
    assert len(set(DANGEROUS_INDEPENDENT)) >= 300
    assert len(set(HARMLESS_INDEPENDENT)) >= 300


def test_refusals_come_first_and_stand_alone() -> None:
    concerns = examined("sudo rm -rf /")
    assert [concern.refused for concern in concerns] == sorted(
        (concern.refused for concern in concerns), reverse=True
    )
    combined = merge_concerns(concerns)
    assert combined is not None
    assert (combined.kind, combined.refused, combined.also) == ("disk wipe", True, ())


def test_several_classes_become_one_question() -> None:
    combined = merge_concerns(examined("sudo rm -r build"))
    assert combined is not None
    assert {combined.kind, *combined.also} == {"privileges", "recursive delete"}
    assert "deletes folders" in combined.reason
    assert "rights of another user" in combined.reason
    assert merge_concerns([]) is None


def test_the_programs_behind_wrappers_are_named() -> None:
    command = "cd x && sudo -u bob env A=1 bash -c 'echo $(id) | wc'"
    programs = examine(command, GUARD, WORK).programs
    assert programs == ("cd", "sudo", "env", "bash", "id", "echo", "wc")


@pytest.mark.parametrize("folder", ["/", "/home/user"])
def test_verdict_depends_on_the_folder(folder: str) -> None:
    assert "disk wipe" in kinds("rm -rf *", folder)
    assert kinds("rm -rf *", WORK) == {"recursive delete", "bulk delete"}
    assert kinds("rm old.txt", folder) == set()


def test_a_folder_of_keys_is_known_from_inside() -> None:
    assert kinds("cat id_rsa", "/home/user/.ssh") == {"credential access"}
    assert kinds("cat config", "/home/user/.hermes/logs") == set()


def test_a_subshell_ends_its_own_cd() -> None:
    assert kinds("(cd /etc && ls); echo x > hosts") == set()
    assert kinds("cd /etc; (cd /tmp); echo x > hosts") == {"system files"}


@pytest.mark.parametrize("command", CASES["each value a variable may have counts"])
def test_each_value_a_variable_may_have_counts(command: str) -> None:
    assert "recursive delete" in kinds(command)


def test_link_to_settings_is_followed(tmp_path: Path) -> None:
    own, work = tmp_path / ".hermes", tmp_path / "work"
    own.mkdir()
    work.mkdir()
    (own / "config.yaml").touch()
    guard = PathGuard(tmp_path, (work,), (own,))
    assert examine_command("echo x >> notes", guard, str(work)) == []
    (work / "notes").symlink_to(own / "config.yaml")
    (concern, *_) = examine_command("echo x >> notes", guard, str(work))
    assert (concern.kind, concern.refused) == ("own policy", True)


def test_settings_behind_a_link_stay_protected(tmp_path: Path) -> None:
    own, work, dotfiles = tmp_path / ".hermes", tmp_path / "work", tmp_path / "dotfiles"
    for folder in (own, work, dotfiles):
        folder.mkdir()
    (dotfiles / "hermes.yaml").touch()
    guard = PathGuard(tmp_path, (work,), (own,))
    command = "echo x >> ../dotfiles/hermes.yaml"
    assert examine_command(command, guard, str(work)) == []
    (own / "config.yaml").symlink_to(dotfiles / "hermes.yaml")
    (concern, *_) = examine_command(command, guard, str(work))
    assert (concern.kind, concern.refused) == ("own policy", True)


def test_link_created_by_the_command_is_followed() -> None:
    assert kinds("ln -s /etc/passwd x; echo y > x") == {"system files"}
    assert kinds("ln -s notes x; echo y > x") == set()


@pytest.mark.parametrize("command", CASES["a program under another name is known"])
def test_a_program_under_another_name_is_known(command: str) -> None:
    assert "recursive delete" in kinds(command)


def test_only_what_make_would_run_counts() -> None:
    written = "printf 'all:\\n\\techo\\nclean:\\n\\trm -r x\\n' > Makefile; make"
    assert kinds(written) == set()
    assert kinds(f"{written} all") == set()
    assert kinds(f"{written} clean") == {"recursive delete"}
    assert kinds(f"{written} -f other.mk clean") == set()


def test_the_usual_home_is_protected_when_another_is_in_force() -> None:
    guard = PathGuard(Path("/home/user"), (Path(WORK),), (Path("/srv/hermes"),))
    for path in ("~/.hermes/config.yaml", "/srv/hermes/.env", "/home/bob/.hermes/auth.json"):
        (concern, *_) = examine_command(f"echo x > {path}", guard, WORK)
        assert (concern.kind, concern.refused) == ("own policy", True), path


def test_paths_of_another_machine_are_not_resolved_locally(tmp_path: Path) -> None:
    (tmp_path / "notes").symlink_to("/etc/shadow")
    guard = PathGuard(Path("/home/user"), (tmp_path,), (), here=False)
    assert examine_command("cat notes", guard, str(tmp_path)) == []
    assert examine_command("cat /etc/shadow", guard, str(tmp_path))


def test_a_place_of_work_below_usr_is_not_the_system() -> None:
    guard = PathGuard(Path("/home/user"), (Path("/usr/src/app"),), ())
    assert examine_command("echo x > a.txt", guard, "/usr/src/app") == []
    assert examine_command("echo x > ../b.txt", guard, "/usr/src/app")


def test_deep_nesting_is_never_taken_for_safe() -> None:
    assert kinds("eval " * 12 + "ls") == {"unreadable command"}


@pytest.mark.parametrize(
    "command",
    [
        "$(" * 60 + "rm -rf /" + ")" * 60,
        "$(" * 400 + "rm -rf /" + ")" * 400,
        "x=$(" * 300 + "rm -rf /" + ")" * 300,
        "sudo " * 5_000 + "ls",
        "env " * 4_000 + "rm -r x",
        "rm -r " + "{a,b}" * 40,
        "a=xx;" + "a=$a$a;" * 60 + "$a",
        "cat <<A\n" * 50,
        "(" * 2_000,
        "a|" * 9_000 + "sh",
        "a;" * 9_000 + "rm -r x",
        "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }};" for n in range(40)) + "f0",
        "sed 's/" + "\\/" * 9_000 + "'",
        "x" * 1_000_000,
        "a " * 500_000,
        "`" * 300_000,
        "ls " + "'" * 300_001,
    ],
    ids=lambda command: f"{command[:12]!r} {len(command)}",
)
def test_commands_built_to_exhaust_the_parser_need_approval(command: str) -> None:
    started = time.process_time()
    assert examined(command)
    assert time.process_time() - started < 5  # processor time; by far more than it needs


def test_a_long_here_document_is_read() -> None:
    text = "a line of text with $(words) and 'quotes'\n" * 3_000
    assert examined(f"cat > notes.md <<'EOF'\n{text}EOF") == []
    assert "disk wipe" in kinds(f"cat > notes.md <<'EOF'\n{text}EOF\nrm -rf /")


def test_our_settings_are_safe_in_a_command_too_long_to_read() -> None:
    concerns = examined("x" * 300_000 + "; echo y > ~/.hermes/config.yaml")
    assert (concerns[0].kind, concerns[0].refused) == ("own policy", True)


def test_a_fork_bomb_counts_where_it_is_code() -> None:
    bomb = ":(){ :|:& };:"
    for command in (f"grep -F '{bomb}' x", f'echo "{bomb}"', f"cat > x <<'E'\n{bomb}\nE"):
        assert kinds(command) == set(), command
    for command in (bomb, f"sh -c '{bomb}'", f"echo '{bomb}' | sh", f"sh <<'E'\n{bomb}\nE"):
        assert "fork bomb" in kinds(command), command
    assert "fork bomb" in kinds(f"echo '{bomb}")  # broken: everything counts


def test_the_subject_is_the_whole_command() -> None:
    command = "rm -r " + "x" * 10_000
    (concern,) = examined(command)
    assert concern.subject == command


def test_a_concern_says_where_it_happens_and_whether_data_is_lost() -> None:
    (lost,) = examined("rm -r build")
    (kept,) = examined("sudo ls", "/srv")
    assert (lost.folder, lost.destructive) == (WORK, True)
    assert (kept.folder, kept.destructive) == ("/srv", False)
    combined = merge_concerns(examined("sudo rm -r build"))
    assert combined is not None
    assert combined.destructive


@pytest.mark.parametrize(
    ("variables", "command", "kind"),
    [
        ({"F": "/home/user/.hermes", "G": "config.yaml"}, "printf x >> $F/$G", "own policy"),
        ({"x": "a[$(rm -rf ~/data)]"}, "echo $((x))", "recursive delete"),
        ({"c": "rm -rf build"}, "$c", "recursive delete"),
        ({"HOME": "/home/user/.hermes"}, "echo x >> ~/config.yaml", "own policy"),
        ({"MY_TOKEN": "abc"}, "echo $MY_TOKEN", "credential access"),
    ],
)
def test_variables_of_the_live_shell_count(variables, command, kind) -> None:
    found = {concern.kind for concern in examine(command, GUARD, WORK, variables).concerns}
    assert kind in found


def test_folder_and_variables_of_an_open_shell_are_followed() -> None:
    shell = ShellState(WORK)
    for line in ("F=~/.hermes", "cd $F"):
        shell = shell_after(line, GUARD, shell)
    assert shell.folder == "/home/user/.hermes"
    concerns = examine("echo x >> config.yaml", GUARD, shell.folder, shell.variables).concerns
    assert concerns[0].kind == "own policy"
    lost = shell_after('cd "$(cat y)"', GUARD, shell)
    assert examine("echo x >> config.yaml", GUARD, lost.folder, lost.variables).concerns


@pytest.mark.parametrize(
    "command",
    ["", " ", "\n", "#", "\\", "'", "$(", "é", "\udce9", "&&", "{", "\ue0020\ue002", "< \ue0029"],
)  # fmt: skip
def test_odd_text_does_not_break_it(command: str) -> None:
    assert isinstance(examined(command), list)


TOKENS = st.sampled_from([
    "$(", ")", "`", "'", '"', "{", "}", "${", "((", "))", "|", "&", "&&", ";", "\n", "<<", "<<<",
    "<", ">", "EOF", "a", "rm", "-rf", "/", "~", "*", "?", "[", "]", "[[", "]]", "x=", "$x", "\\",
    "#", "!", "if", "then", "fi", "for", "in", "do", "done", "case", "esac", "f()", "eval", "sudo",
    "sh", "-c", "\ue000", "\ue002", "\0", "\r", "é", "find", "-exec", "{}", "+", "sed", "perl",
    "-pe", "xargs", "-I", "printf", "%s", "echo", "base64", "-d", "alias", "set", "--", "read",
    "git", "ln",
])  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=200), st.lists(TOKENS, max_size=40).map(" ".join)))
def test_any_text_gets_an_answer(command: str) -> None:
    for concern in examined(command):
        assert concern.kind
        assert concern.reason


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(DANGEROUS[:200]), st.sampled_from(HARMLESS))
def test_danger_is_found_next_to_a_harmless_command(dangerous: str, harmless: str) -> None:
    command = dangerous.partition(" :: ")[2]
    assert examined(f"{harmless}\n{command}")


@pytest.mark.parametrize("program", ["sed", "perl -pe", "sed -e", "sed --expression"])
def test_a_pattern_full_of_backslashes_is_read_at_once(program: str) -> None:
    examined(f"{program} 's/{chr(92)}a" + "\\a" * 200 + "' notes.txt")


def test_a_long_script_is_read() -> None:
    assert "recursive delete" in kinds("echo hello\n" * 390 + "rm -rf build")


@pytest.mark.parametrize("pattern", ["'*'", "'**'", "'*.*'"])
def test_a_pattern_that_takes_everything_narrows_nothing_down(pattern: str) -> None:
    assert kinds(f"find / -name {pattern} -delete") == kinds("find / -delete")


def test_every_rule_can_be_applied() -> None:
    for rule in catalog.RULES:
        for conditions in filter(None, (rule, rule.unless)):
            assert not conditions.test or callable(catalog._predicate(conditions.test))
            for pattern in (conditions.says, conditions.says_exactly, conditions.pattern):
                catalog._compile(pattern)
