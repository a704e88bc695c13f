"""What a script imports, by reading it."""

import ast
from pathlib import Path


def imported(script: Path) -> set[str]:
    """Return the full names of the modules that a script imports, except those in its folder."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names - {path.stem for path in script.parent.glob("*.py")}
