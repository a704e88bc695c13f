"""The report on the corpus and on skills of this disk."""

import pytest

from scripts.skill_scan_report import examples, main


def test_the_table_counts_every_skill(capsys):
    assert main([]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["part", "skills", "dangerous"]
    counts = [int(row[24:31]) for row in rows]
    assert counts[0] + counts[1] == counts[2]
    assert counts[3] + counts[4] == counts[5]
    assert counts[2] + counts[5] == len(examples())


def test_misjudged_samples_are_listed(capsys):
    main(["--misses"])
    assert "missed: kind-request" in capsys.readouterr().out


def test_skills_of_a_folder_are_judged(tmp_path, capsys):
    for name, text in (("good", "# Fine\n"), ("bad", "```bash\nrm -rf /\n```\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(text)
    main([str(tmp_path), "--findings"])
    why = "destroys the system, a disk or the home folder"
    assert capsys.readouterr().out.splitlines() == [
        f"dangerous: {tmp_path}/bad",
        f"    critical destructive SKILL.md:2: {why}: rm -rf /",
        f"safe: {tmp_path}/good",
    ]


def test_a_folder_without_skills_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nothing")])
    assert "there is no SKILL.md" in capsys.readouterr().err
