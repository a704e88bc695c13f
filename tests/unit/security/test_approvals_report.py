"""The report on detection and false alarms."""

import pytest

from scripts.approvals_report import main, read


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dangerous.txt").write_text(
        "# a comment\n\nplain | recursive delete :: rm -r x\nplain | !disk wipe :: rm -rf /\n"
        "lines | recursive delete :: ls⏎rm -r x\n"
    )
    (tmp_path / "harmless.txt").write_text("git | git status\nshell | echo a | wc\n")
    return tmp_path


def test_lines_are_read_with_their_technique(folder):
    assert [case[:3] for case in read(folder / "dangerous.txt")] == [
        ("plain", "recursive delete", "rm -r x"),
        ("plain", "!disk wipe", "rm -rf /"),
        ("lines", "recursive delete", "ls\nrm -r x"),
    ]
    assert [case[:3] for case in read(folder / "harmless.txt")] == [
        ("git", "", "git status"),
        ("shell", "", "echo a | wc"),
    ]


def test_rates_are_shown_by_technique(folder, capsys):
    assert main([str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "100.00 %  (3 of 3: 2 asked, 1 refused)" in shown
    assert "0.00 %  (0 of 2)" in shown
    assert "lines" in shown
    assert "MISSED" not in shown


def test_misses_and_false_alarms_are_named_and_fail(folder, capsys):
    (folder / "dangerous.txt").write_text("plain | recursive delete :: ls\n")
    (folder / "harmless.txt").write_text("plain | sudo ls\n")
    assert main([str(folder)]) == 1
    shown = capsys.readouterr().out
    assert "MISSED       plain: 'ls'" in shown
    assert "FALSE ALARM  plain: 'sudo ls'" in shown


def test_peer_that_cannot_run_is_reported(folder, tmp_path):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho no such detector >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(SystemExit, match="no such detector"):
        main([str(folder), "--peer", str(tmp_path)])


def test_a_peer_is_measured_on_the_same_lines(folder, tmp_path, capsys):
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    answers = 'case "$(cat)" in *git*) echo \'"ask"\'; echo \'"allow"\';; *) '
    answers += "echo loading; for i in 1 2 3; do echo '\"allow\"'; done;; esac"
    python.write_text(f"#!/bin/sh\n{answers}\n")
    python.chmod(0o755)
    assert main([str(folder), "--peer", str(tmp_path)]) == 0
    theirs = capsys.readouterr().out.partition("the published package")[2]
    assert "0.00 %  (0 of 3: 0 asked, 0 refused)" in theirs
    assert "50.00 %  (1 of 2)" in theirs


def test_independent_corpus_is_reported_separately(folder, capsys):
    (folder / "dangerous-independent.txt").write_text("plain | ? :: sudo ls\nlines | ? :: pwd\n")
    (folder / "harmless-independent.txt").write_text("git | git log\n")
    assert main([str(folder)]) == 1
    shown = capsys.readouterr().out
    assert "(4 of 5: 3 asked, 1 refused)" in shown
    assert "written independently: detected       50.00 %  (1 of 2)" in shown
    assert "written independently: false alarms    0.00 %  (0 of 1)" in shown
    assert "plain (independent)" in shown
    assert "MISSED       lines: 'pwd'" in shown


def test_fresh_lines_have_limits_of_their_own(folder, capsys):
    found = "plain | recursive delete :: rm -r x\n" * 98 + "plain | recursive delete :: ls\n" * 2
    (folder / "dangerous.txt").write_text(found)
    assert main([str(folder)]) == 0
    assert "fresh lines" in capsys.readouterr().out
