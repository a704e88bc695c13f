"""Which modules the parts of Hermes load: a start does not wait for what it does not use."""

import subprocess
import sys

import pytest


def loaded_by(code: str) -> set[str]:
    """The modules in a new process after `code`."""
    program = f"import sys; {code}; print(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("import hermes.config.home", "msgspec yaml ruamel asyncio dataclasses logging"),
        ("import hermes.config.loader", "ruamel asyncio dotenv"),
        ("import hermes.compat.cli, hermes.tui.terminal_ui", "hermes.agent hermes.app.app httpx"),
        ("import hermes.tui.markdown", "pygments"),
        (
            (
                "from pathlib import Path; from hermes.tui.skins import find_skin; "
                "find_skin('ares', Path('nowhere'))"
            ),
            "yaml",
        ),
        ("from hermes.store import Run", "apsw"),
        (
            (
                "import hermes.tools.toolbox, hermes.tools.approval, "
                "hermes.tools.builtin.read_file, hermes.tools.builtin.write_file, "
                "hermes.tools.builtin.search_files"
            ),
            "tree_sitter",
        ),
        (
            (
                "import hermes.tools.builtin.web_extract; "
                "from hermes.tools.builtin import web_search; "
                "assert not web_search.search_unavailable(web_search.WebSearchOptions())"
            ),
            "ddgs trafilatura pypdf lxml primp",
        ),
        (
            (
                "from hermes.skills.scanner import scan_files; "
                "from hermes.skills.scanner.report import decide_install"
            ),
            "hermes.skills.scanner.scan hermes.security.danger tree_sitter",
        ),
    ],
)
def test_part_loads_nothing_that_it_uses_later(code: str, unused: str) -> None:
    assert loaded_by(code) & set(unused.split()) == set()


def test_rules_of_the_scanner_are_loaded_with_the_first_scan() -> None:
    code = "from hermes.skills.scanner import scan_files; scan_files({'a.sh': b'rm -rf /'})"
    assert "hermes.security.danger" in loaded_by(code)


def test_gateway_is_imported_without_the_package_of_the_metrics() -> None:
    loaded_by("sys.modules['prometheus_client'] = None; import hermes.gateway.runner")


def test_importing_the_sdk_loads_no_other_part() -> None:
    names = loaded_by("import hermes.sdk, hermes.sdk.memory, hermes.sdk.context")
    sdk = {"hermes.sdk", "hermes.sdk.context", "hermes.sdk.memory"}
    assert {name for name in names if "hermes." in name} == {
        *sdk,
        "hermes.util",
        "hermes.util.lazy",
    }


def test_package_loads_a_module_with_its_first_name() -> None:
    names = loaded_by("import hermes.terminal")
    assert not [name for name in names if name.startswith("hermes.terminal.")]
    assert "hermes.terminal.output" in loaded_by(
        "import hermes.terminal; hermes.terminal.OutputLimits"
    )
