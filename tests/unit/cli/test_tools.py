"""`hermes tools`: what there is, what is on, what it costs."""

import json
from pathlib import Path

import pytest
import yaml

from hermes.cli.main import main


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict]:
    assert main(["tools", "list", "--json", *arguments]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_the_tools_are_listed_by_toolset(capsys):
    assert main(["tools", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    files = lines.index("file: read, write, change and search files")
    assert [line.split()[:2] for line in lines[files + 1 : files + 5]] == [
        ["✓", "patch"],
        ["✓", "read_file"],
        ["✓", "search_files"],
        ["✓", "write_file"],
    ]
    assert main(["tools"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_a_toolset_can_be_switched_off_and_on_again(capsys, hermes_home: Path):
    assert main(["tools", "disable", "web", "execute_code"]) == 0
    assert "off for cli" in capsys.readouterr().out
    found = rows(capsys)
    assert not found["web_search"]["on"]
    assert not found["execute_code"]["on"]
    assert found["read_file"]["on"]
    assert main(["tools", "enable", "execute_code"]) == 0
    capsys.readouterr()
    assert rows(capsys)["execute_code"]["on"]
    saved = yaml.safe_load((hermes_home / "config.yaml").read_text())
    assert saved == {"platform_toolsets": {"cli": ["hermes-cli", "-web"]}}


def test_platforms_are_chosen_for_one_by_one(capsys):
    main(["tools", "disable", "terminal", "--platform", "telegram"])
    capsys.readouterr()
    assert not rows(capsys, "--platform", "telegram")["terminal"]["on"]
    assert rows(capsys)["terminal"]["on"]
    assert not rows(capsys, "--platform", "cron")["clarify"]["on"]
    assert main(["tools", "--summary"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "cli",
        "telegram",
    ]


@pytest.mark.parametrize("action", ["enable", "disable"])
def test_an_unknown_name_changes_nothing(capsys, hermes_home: Path, action: str):
    assert main(["tools", action, "web", "reed_file"]) == 2
    assert "did you mean read_file?" in capsys.readouterr().err
    assert not (hermes_home / "config.yaml").exists()


def test_the_schemas_are_shown_with_what_they_cost(capsys):
    assert main(["tools", "schema", "--json"]) == 0
    paid = json.loads(capsys.readouterr().out)
    assert paid["total"] == sum(tool["chars"] for tool in paid["tools"]) + paid["system_prompt"]
    assert main(["tools", "schema", "--full"]) == 0
    full = json.loads(capsys.readouterr().out)
    assert {each["function"]["name"] for each in full} == {tool["name"] for tool in paid["tools"]}
    sizes = [len(json.dumps(each, separators=(",", ":"), ensure_ascii=False)) for each in full]
    assert sum(sizes) == sum(tool["chars"] for tool in paid["tools"])
    assert main(["tools", "schema"]) == 0
    assert f"{paid['total']:,}  characters in every request" in capsys.readouterr().out


def test_a_tool_says_why_it_cannot_be_used(capsys, hermes_home: Path):
    hermes_home.mkdir()
    (hermes_home / "config.yaml").write_text("web: {backend: exa}\n")
    found = rows(capsys)["web_search"]
    assert "EXA_API_KEY" in found["missing"]
    main(["tools", "list"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "web_search not available: " in shown
