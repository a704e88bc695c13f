"""Checks the structure of the source against `scripts/budgets.toml` and prints what is wrong.

- Each package of `src/hermes` has a budget of files and lines. A new package needs one.
- Each rule below has a ceiling: the number of violations that are still there. The check fails when
  a count rises above its ceiling, and reminds you to lower the ceiling when the count has fallen.
  A ceiling is never raised; it goes away when it is 0.

`structure.py --list RULE` prints the violations of one rule. `structure.py --lower` writes the
present counts into `budgets.toml` where they are lower than its numbers.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SMALL = 60
"""Lines under which a module with one importer belongs into that importer."""

STANDALONE = frozenset({"__init__", "__main__", "manifest"})
"""Module names that may be small."""

RENAMED = frozenset(
    re.findall(
        r"\w+",
        """
    AroundTurns Bell Bench ChatTalk Circle Circumstances ContextKeeper Courier Crew Desk Diary Door
    Doorman EngineRoom Envelope Errand Floor GivingShell Growing House JobBook JobDesk Line Lines
    Live LookingBack Looks Making Office OnceCommands Parts Peer Post Pump Purse Reception Room Said
    Scene Shelf SkillShelf Start Talk Tally Turning Workbench Workshop
    """,
    )
)
"""Class names that do not say what the class is; each has a conventional name."""

ODD_WORDS = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)
REQUIREMENT = re.compile(r"^[\w.-]+")
IMPORT_NAMES = {"markdown-it-py": "markdown_it", "pyyaml": "yaml", "python-dotenv": "dotenv"}
"""Packages that are imported under another name than they are installed."""


@dataclass(frozen=True)
class SourceModule:
    """A parsed source file."""

    name: str
    path: str
    lines: int
    tree: ast.Module
    nodes: list[ast.AST]

    @property
    def stem(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".py")

    @property
    def package(self) -> str:
        """Its package inside `hermes`; otherwise `hermes` or `hermes_plugins`."""
        parts = self.path.split("/")
        return parts[1] if parts[0] == "hermes" and len(parts) > 2 else parts[0]

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


def read_source(root: Path) -> list[SourceModule]:
    """Return every module under `root`, the folder of a top-level package."""
    modules = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        relative = path.relative_to(root.parent)
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(text)
        lines = len(text.splitlines())
        modules.append(SourceModule(name, relative.as_posix(), lines, tree, list(ast.walk(tree))))
    return modules


def imported_names(module: SourceModule) -> Iterator[str]:
    """Return the dotted names that a module imports; `from a import b` gives `a` and `a.b`."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def small_modules(source: list[SourceModule]) -> Iterator[str]:
    """Yield modules under 60 lines that exactly one other module imports, except to re-export."""
    importers: dict[str, list[SourceModule]] = defaultdict(list)
    for module in source:
        for name in set(imported_names(module)) - {module.name}:
            importers[name].append(module)
    for module in source:
        if module.lines >= SMALL or module.stem in STANDALONE:
            continue
        users = importers[module.name]
        if len(users) == 1 and users[0].stem != "__init__":
            yield f"{module.path}: {module.lines} lines, imported only by {users[0].path}"


def shared_class_names(source: list[SourceModule]) -> Iterator[str]:
    """Yield public class names that more than one module defines at its top level."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in source:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.at(node))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{name}: {', '.join(found)}"


def imports_by_string(source: list[SourceModule]) -> Iterator[str]:
    """Yield calls of `import_module` with the name of one of our modules, outside lazy packages."""
    for module in source:
        if module.stem == "__init__":
            continue
        for node in module.nodes:
            if isinstance(node, ast.Call) and node.args and _imports_by_string(node.func):
                name = ast.unparse(node.args[0])
                if "hermes." in name:
                    yield f"{module.at(node)}: {name}"


def _imports_by_string(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name == "import_module"


def vague_class_names(source: list[SourceModule]) -> Iterator[str]:
    """Yield classes with a name that `RENAMED` lists."""
    for module in source:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in RENAMED:
                yield f"{module.at(node)}: {node.name}"


def odd_words(source: list[SourceModule], exempt: Mapping[str, str]) -> Iterator[str]:
    """Yield the places of the words in `ODD_WORDS` in docstrings and other strings."""
    for module in source:
        if module.path in exempt:
            continue
        for node in module.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for word in ODD_WORDS.findall(node.value):
                    yield f"{module.at(node)}: {word}"


def unused_dependencies(source: list[SourceModule], requirements: list[str]) -> Iterator[str]:
    """Yield runtime dependencies of pyproject.toml that no module imports."""
    used = {name.lower() for module in source for name in imported_names(module)}
    for module in source:
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(n))]):
                    used.add(n.lower())
    for requirement in requirements:
        found = REQUIREMENT.match(requirement)
        name = found[0].lower() if found else requirement
        module_name = IMPORT_NAMES.get(name, name.replace("-", "_"))
        if not any(each == module_name or each.startswith(f"{module_name}.") for each in used):
            yield f"{requirement}: no module of src imports {module_name}"


def over_budget(source: list[SourceModule], budgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield packages with more files or lines than their budget, or without one."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for module in source:
        sizes[module.package].append(module.lines)
    for package, lines in sorted(sizes.items()):
        budget = budgets.get(package)
        if budget is None:
            yield f"{package}: no budget in scripts/budgets.toml"
            continue
        for kind, count in (("files", len(lines)), ("lines", sum(lines))):
            if count > budget[kind]:
                yield f"{package}: {count} {kind}, the budget is {budget[kind]}"
    yield from (
        f"{package}: has a budget but is gone" for package in budgets if package not in sizes
    )


Rule = Callable[[], Iterator[str]]


def rules(
    source: list[SourceModule], lists: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, Rule]:
    """Return every rule that has a ceiling, by its name in budgets.toml."""
    return {
        "small_modules_with_one_importer": lambda: small_modules(source),
        "shared_class_names": lambda: shared_class_names(source),
        "imports_by_string": lambda: imports_by_string(source),
        "vague_class_names": lambda: vague_class_names(source),
        "odd_words": lambda: odd_words(source, lists.get("texts_for_the_model", {})),
        "unused_dependencies": lambda: unused_dependencies(
            source, project["project"]["dependencies"]
        ),
    }


def check(
    source: list[SourceModule], lists: Mapping[str, Any], project: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the failures and the reminders."""
    failures = [f"budget: {line}" for line in over_budget(source, lists["packages"])]
    reminders = []
    for name, rule in rules(source, lists, project).items():
        found, ceiling = list(rule()), lists["ceilings"].get(name, 0)
        if len(found) > ceiling:
            # It is unknown which of them are new, so all are listed if there are few.
            shown = found if len(found) <= 20 else [f"see: scripts/structure.py --list {name}"]
            failures.append(f"{name}: {len(found)}, the ceiling is {ceiling}")
            failures += [f"  {line}" for line in shown]
        elif len(found) < ceiling:
            reminders.append(f"{name}: {len(found)}; lower the ceiling of {ceiling} (--lower)")
    gone = set(lists.get("texts_for_the_model", {})) - {m.path for m in source}
    failures += [f"texts_for_the_model: {path} is gone" for path in sorted(gone)]
    return failures, reminders


def lowered(text: str, source: list[SourceModule], project: Mapping[str, Any]) -> str:
    """Return budgets.toml with each number as low as possible; budgets keep 1 % of room."""
    lists = tomllib.loads(text)
    for name, rule in rules(source, lists, project).items():
        count = len(list(rule()))
        if count < lists["ceilings"].get(name, 0):
            line = f"{name} = {count}\n" if count else ""
            text = re.sub(rf"^{name} = \d+\n", line, text, flags=re.MULTILINE)
    for package, budget in lists["packages"].items():
        lines = [module.lines for module in source if module.package == package]
        counts = {"files": len(lines), "lines": sum(lines)}
        new = {kind: min(budget[kind], -(-count * 101 // 100)) for kind, count in counts.items()}
        line = f"{package} = {{ files = {new['files']}, lines = {new['lines']} }}"
        text = re.sub(rf"^{package} = {{.*}}$", line, text, flags=re.MULTILINE)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="check the structure of the source")
    parser.add_argument("--list", metavar="RULE", help="print the violations of one rule")
    parser.add_argument("--lower", action="store_true", help="lower the numbers of budgets.toml")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    file = root / "scripts" / "budgets.toml"
    lists = tomllib.loads(file.read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    source = [*read_source(root / "src" / "hermes"), *read_source(root / "src" / "hermes_plugins")]
    if options.list:
        print("\n".join(rules(source, lists, project)[options.list]()))
        return 0
    if options.lower:
        file.write_text(
            lowered(file.read_text(encoding="utf-8"), source, project), encoding="utf-8"
        )
        return 0
    failures, reminders = check(source, lists, project)
    for line in [*(f"FAIL  {failure}" for failure in failures), *(f"note  {r}" for r in reminders)]:
        print(line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
