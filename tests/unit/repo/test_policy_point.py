"""No handler of a tool is called around the policy."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
ALLOWED = {
    "hermes/agent/dispatch.py": "asks the policy before each call",
    "hermes/sdk/testing/plugin.py": "calls the tool of a plugin author's own test",
    "hermes/app/command_handlers.py": "handlers of slash commands, which a user types",
}


def _uses_of_handlers(path: Path) -> list[int]:
    """Return the lines that read the attribute `handler` of an object other than self."""
    tree = ast.parse(path.read_text("utf-8"))
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "handler"
        and isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    ]


def test_only_the_dispatcher_calls_handlers_of_tools() -> None:
    found = {
        str(path.relative_to(SOURCE)): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := _uses_of_handlers(path))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) == set(found)


def test_the_dispatcher_asks_before_it_calls() -> None:
    text = (SOURCE / "hermes/agent/dispatch.py").read_text("utf-8")
    assert text.count("olicy.permit(") == 2
    assert text.count(".handler(") == 2
