"""Extensions written to the contributing pages alone, in a folder outside of the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[3] / "docs" / "contributing"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^\s*(?:from|import) (hermes[\w.]*)", re.MULTILINE)


@pytest.mark.parametrize(
    "page", ["add-a-memory-provider", "add-a-context-engine", "write-a-plugin"]
)
def test_the_extension_of_a_page_passes_the_contract_tests(page: str, tmp_path: Path) -> None:
    example, contract, *_ = BLOCK.findall((PAGES / f"{page}.md").read_text("utf-8"))
    (tmp_path / "example.py").write_text(example)
    (tmp_path / "test_extension.py").write_text(contract)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for program in (["example.py"], ["-m", "pytest", "-q", "-p", "no:cacheprovider"]):
        done = subprocess.run(
            [sys.executable, *program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    imported = set(IMPORT.findall(example + contract))
    assert imported
    assert all(name == "hermes.sdk" or name.startswith("hermes.sdk.") for name in imported)
