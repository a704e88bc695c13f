"""The linter's configuration really refuses what the contributor pages forbid."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]
LONG = "".join(f"    x{n} = {n}\n" for n in range(51))
BRANCHES = [f"    if x == {n}:\n        return {n}\n" for n in range(11)]
BRANCHY = "".join(BRANCHES)

SNIPPETS = {
    "BLE001": "try:\n    x = 1\nexcept Exception:\n    x = 2\n",
    "S110": "try:\n    x = 1\nexcept Exception:\n    pass\n",
    "PLW0603": "X = 1\n\n\ndef f() -> None:\n    global X\n    X = 2\n",
    "C901": f"def f(x: int) -> int:\n{BRANCHY}    return 0\n",
    "PLR0915": f"def f() -> None:\n{LONG}",
    "T201": "print('x')\n",
    "TID251": "import os\n\nx = os.environ['A']\n",
    "TID252": "from . import x\n",
    "ANN201": "def f():\n    return 1\n",
}
ALLOWED = {
    "config/TID251": "import os\n\nX = os.environ['A']\n",
    "agent/C901": f"def f(x: int) -> int:\n{''.join(BRANCHES[:9])}    return 0\n",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """File stem (with its folder) -> rules that fired, from one run of the linter."""
    root = tmp_path_factory.mktemp("lint")
    planted = {f"agent/{rule}": text for rule, text in SNIPPETS.items()}
    allowed = {f"{name}_allowed": text for name, text in ALLOWED.items()}
    for name, text in (planted | allowed).items():
        path = root / "src" / "hermes" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "json"]
    config = ["--config", str(REPO / "pyproject.toml")]
    result = subprocess.run(
        [*command, *config, "."], cwd=root, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stderr
    found: dict[str, set[str]] = {}
    for entry in json.loads(result.stdout):
        path = Path(entry["filename"])
        found.setdefault(f"{path.parent.name}/{path.stem}", set()).add(entry["code"])
    return found


@pytest.mark.parametrize("rule", SNIPPETS)
def test_planted_violation_is_refused(findings: dict[str, set[str]], rule: str) -> None:
    assert rule in findings[f"agent/{rule}"]


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_code_passes(findings: dict[str, set[str]], name: str) -> None:
    rule = name.partition("/")[2]
    assert rule not in findings.get(f"{name}_allowed", set())
