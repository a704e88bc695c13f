"""Measures the source against the size targets and prints one table.

Every target is a row: its limit, the measured value, where the worst case is. A row fails when a
case is over the limit and is not named in `EXEMPTIONS`. An exemption that is no longer needed
fails too, so that the list cannot rot.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

EXEMPTIONS: Mapping[tuple[str, str], str] = {}
"""(row name, place as printed in the table) -> reason."""

KERNEL = ("core", "agent")
KERNEL_TEST_DOUBLES = "hermes/core/testing/"
"""Not counted as core: test doubles for us and for plugin authors; the agent never loads them."""

NOT_COUNTED = f"not counting {KERNEL_TEST_DOUBLES}"

BROAD = frozenset({"Exception", "BaseException"})
ENVIRONMENT = frozenset({"environ", "environb", "getenv"})
PATCHES = frozenset({"setattr", "delattr", "setitem", "delitem"})
"""Methods of pytest's monkeypatch that replace behaviour (variables and folders do not count)."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Case:
    """One measured value and its place."""

    value: float
    place: str


@dataclass(frozen=True)
class Row:
    """One size target."""

    name: str
    limit: float
    cases: tuple[Case, ...]
    exempt: Mapping[str, str] = field(default_factory=dict)

    @property
    def worst(self) -> Case:
        return max(self.cases, key=lambda case: case.value, default=Case(0, ""))

    @property
    def failures(self) -> list[Case]:
        return [c for c in self.cases if c.value > self.limit and c.place not in self.exempt]

    @property
    def unused(self) -> list[str]:
        """Exemptions for places that are within the limit or gone."""
        over = {case.place for case in self.cases if case.value > self.limit}
        return [place for place in self.exempt if place not in over]


@dataclass(frozen=True)
class Module:
    """A parsed source file."""

    path: str
    lines: int
    tree: ast.Module

    @property
    def folder(self) -> str:
        """The top-level folder of the package it lives in, such as `core`."""
        return self.path.split("/")[1] if self.path.count("/") > 1 else ""


def read_modules(package: Path) -> list[Module]:
    """Return every Python file under `package` that is not empty."""
    modules = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            name = path.relative_to(package.parent).as_posix()
            modules.append(Module(name, len(text.splitlines()), ast.parse(text)))
    return modules


def nodes(module: Module, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(module.tree) if isinstance(node, kinds))


def functions(module: Module) -> Iterator[FunctionNode]:
    for node in nodes(module, ast.FunctionDef, ast.AsyncFunctionDef):
        assert isinstance(node, FunctionNode)
        yield node


def classes(module: Module) -> Iterator[ast.ClassDef]:
    for node in nodes(module, ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        yield node


def length(node: FunctionNode | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def named(module: Module, node: FunctionNode | ast.ClassDef, value: float) -> Case:
    return Case(value, f"{module.path}:{node.name}")


def at(module: Module, node: ast.AST) -> Case:
    return Case(1, f"{module.path}:{getattr(node, 'lineno', 0)}")


def total(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Return the sum of all cases; its place lists the first few."""
    found = list(cases)
    return (Case(len(found), ", ".join(case.place for case in found[:3])),)


def function_lengths(modules: Iterable[Module]) -> tuple[Case, ...]:
    return tuple(named(m, f, length(f)) for m in modules for f in functions(m))


def class_lengths(modules: Iterable[Module]) -> tuple[Case, ...]:
    return tuple(named(m, c, length(c)) for m in modules for c in classes(m))


def method_counts(modules: Iterable[Module]) -> tuple[Case, ...]:
    return tuple(
        named(m, c, sum(isinstance(member, FunctionNode) for member in c.body))
        for m in modules
        for c in classes(m)
    )


def environment_reads(modules: Iterable[Module]) -> Iterator[Case]:
    for module in modules:
        if module.folder == "config":
            continue
        for node in nodes(module, ast.Attribute, ast.ImportFrom):
            if reads_environment(node):
                yield at(module, node)


def reads_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in ENVIRONMENT
        case ast.ImportFrom(module="os", names=names):
            return any(alias.name in ENVIRONMENT for alias in names)
        case _:
            return False


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches everything and does not raise it again."""
    if any(isinstance(statement, ast.Raise) for statement in handler.body):
        return False
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(k is None or (isinstance(k, ast.Name) and k.id in BROAD) for k in kinds)


def handlers(modules: Iterable[Module]) -> Iterator[tuple[Module, ast.ExceptHandler]]:
    for module in modules:
        for node in nodes(module, ast.ExceptHandler):
            assert isinstance(node, ast.ExceptHandler)
            yield module, node


def hides_everything(node: ast.AST) -> bool:
    """Return whether a statement is `suppress(Exception)`, which hides every error."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "suppress" and any(isinstance(a, ast.Name) and a.id in BROAD for a in node.args)


def silent_handlers(modules: list[Module]) -> Iterator[Case]:
    for module, handler in handlers(modules):
        if all(isinstance(statement, ast.Pass) for statement in handler.body):
            yield at(module, handler)
    for module in modules:
        yield from (at(module, node) for node in nodes(module, ast.Call) if hides_everything(node))


def broad_rate(modules: list[Module]) -> tuple[Case, ...]:
    found = [at(module, handler) for module, handler in handlers(modules) if is_broad(handler)]
    lines = sum(module.lines for module in modules) or 1
    places = ", ".join(case.place for case in found[:3])
    return (Case(1000 * len(found) / lines, places),)


def unannotated(modules: Iterable[Module]) -> Iterator[Case]:
    return (named(m, f, 1) for m in modules for f in functions(m) if f.returns is None)


def patch_rate(tests: list[Module]) -> tuple[Case, ...]:
    count = sum(f.name.startswith("test_") for module in tests for f in functions(module))
    found = [
        at(module, node)
        for module in tests
        for node in nodes(module, ast.Call)
        if isinstance(node, ast.Call) and is_patch(node)
    ]
    return (Case(len(found) / (count or 1), ", ".join(case.place for case in found[:3])),)


def is_patch(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="monkeypatch"), attr=name):
            return name in PATCHES
        case ast.Attribute(value=ast.Name(id="mock"), attr=_) | ast.Name(id="patch"):
            return True
        case _:
            return False


def measure(
    package: Path, tests: Path, exemptions: Mapping[tuple[str, str], str] = EXEMPTIONS
) -> list[Row]:
    """Return the table of size targets for `package` and its `tests`."""
    source = read_modules(package) + read_modules(package.parent / "hermes_plugins")
    checks = read_modules(tests)
    loop = [m for m in source if m.path.endswith("agent/loop.py")]
    kernel = [
        m for m in source if m.folder in KERNEL and not m.path.startswith(KERNEL_TEST_DOUBLES)
    ]
    table: list[tuple[str, float, tuple[Case, ...]]] = [
        ("lines of the largest file", 800, tuple(Case(m.lines, m.path) for m in source)),
        ("lines of the longest function", 80, function_lengths(source)),
        ("lines of the loop function", 80, function_lengths(loop)),
        ("lines of the largest class", 500, class_lengths(source)),
        ("methods of the largest class", 35, method_counts(source)),
        ("global statements", 0, total(at(m, n) for m in source for n in nodes(m, ast.Global))),
        ("environment reads outside config", 0, total(environment_reads(source))),
        ("broad excepts per 1,000 lines", 0.5, broad_rate(source)),
        ("excepts that only pass", 0, total(silent_handlers(source))),
        ("functions without return annotation", 0, total(unannotated(source))),
        ("patches per test", 0.05, patch_rate(checks)),
        ("lines of core and agent", 3600, (Case(sum(m.lines for m in kernel), NOT_COUNTED),)),
    ]
    return [
        Row(name, limit, cases, {p: why for (row, p), why in exemptions.items() if row == name})
        for name, limit, cases in table
    ]


def render(rows: Iterable[Row]) -> str:
    """Return the table as text, followed by the failures and the exemptions."""
    lines, notes = [f"{'size target':<37}{'limit':>7}{'value':>9}  worst case"], []
    for row in rows:
        verdict = "FAIL" if row.failures or row.unused else "ok"
        value = f"{row.worst.value:,.2f}".rstrip("0").rstrip(".")
        lines.append(f"{row.name:<37}{row.limit:>7,g}{value:>9}  {verdict:<5}{row.worst.place}")
        notes += [f"FAIL  {row.name}: {c.value:g} at {c.place}" for c in row.failures]
        notes += [f"FAIL  {row.name}: exemption not needed: {place}" for place in row.unused]
        notes += [f"exempt  {row.name}: {place}: {why}" for place, why in row.exempt.items()]
    return "\n".join(lines + notes)


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    rows = measure(root / "src" / "hermes", root / "tests")
    print(render(rows))
    return 1 if any(row.failures or row.unused for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
