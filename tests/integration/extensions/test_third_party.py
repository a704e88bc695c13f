"""Extensions that are not in the repository, in a folder outside of it: those of the contributing
pages, and a platform."""

import re
import shutil
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
    run(tmp_path, "example.py")
    run_contract(tmp_path)


def test_a_platform_passes_the_contract_tests(tmp_path: Path) -> None:
    for name, copy in (("board.py", "board.py"), ("contract.py", "test_extension.py")):
        shutil.copy(Path(__file__).parent / "board" / name, tmp_path / copy)
    run_contract(tmp_path)


def run_contract(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    (folder / "conftest.py").write_text(
        "import pytest\n\n@pytest.fixture(scope='session')\ndef anyio_backend():\n"
        "    return 'asyncio'\n"
    )
    run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    imported = set(IMPORT.findall("\n".join(each.read_text() for each in folder.glob("*.py"))))
    assert imported
    assert all(name == "hermes.sdk" or name.startswith("hermes.sdk.") for name in imported)


def run(folder: Path, *program: str) -> None:
    done = subprocess.run(
        [sys.executable, *program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
