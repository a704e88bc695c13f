"""What a model can be trained on: environment scripts and sets of tasks.

They are found without running their code: scripts are parsed. A class that derives from
`HermesAgentBaseEnv` and has a `name` is an environment; a file with `TASKS` or `load_tasks` is a
set of tasks, and so is a folder of Harbor tasks.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

import hermes
from hermes.core.errors import UsageError
from hermes.envs.taskset import BUILTIN, FUNCTION_NAME, LIST_NAME
from hermes.util.yaml_loader import load_yaml

PACKAGE = Path(hermes.__file__).parent
BASE_CLASS = "HermesAgentBaseEnv"
MAX_FILES = 2_000  #: In one folder; more is probably not a folder of environments.
MAX_FILE_BYTES = 1_000_000

AGENT_FIELDS: dict[str, Any] = {
    "enabled_toolsets": None,
    "disabled_toolsets": None,
    "distribution": None,
    "max_agent_turns": 30,
    "agent_temperature": 1.0,
    "system_prompt": None,
    "terminal_backend": "local",
    "terminal_timeout": 120,
    "terminal_lifetime": 3600,
    "dataset_name": None,
    "tool_pool_size": 128,
    "tool_call_parser": "hermes",
    "extra_body": None,
    "eval_handling": "STOP_TRAIN",
}
"""Fields of `HermesAgentEnvConfig` and their defaults."""
TRAINING_FIELDS: dict[str, Any] = {
    "group_size": 16,
    "total_steps": 100,
    "steps_per_eval": 100,
    "max_token_length": 8192,
    "tokenizer_name": None,
    "use_wandb": False,
    "wandb_name": None,
}
"""Fields that every trainer may use."""


class EnvironmentInfo(msgspec.Struct, frozen=True):
    """An environment, and the fields of its configuration with their defaults."""

    name: str
    kind: Literal["script", "tasks"]
    source: str  #: Path of the script, or a source for `taskset.load_tasks`.
    description: str = ""
    fields: dict[str, Any] = {}
    given: dict[str, Any] = {}  #: Values of a YAML file next to the script.


class _Class(msgspec.Struct, frozen=True):
    """The facts of a class definition."""

    bases: tuple[str, ...]
    constants: dict[str, Any]  #: Assigned literals,
    names: dict[str, str]  #: and assigned names, as in `env_config_cls = MyConfig`.
    doc: str


def find_environments(folders: Iterable[Path]) -> list[EnvironmentInfo]:
    """Return the environments of the folders and the built-in sets of tasks, sorted by name.

    Of two environments with one name, the first one counts. Files that cannot be parsed are left
    out.
    """
    found: dict[str, EnvironmentInfo] = {}
    for folder in folders:
        for each in _find_in(folder):
            found.setdefault(each.name, each)
    for name in BUILTIN:
        builtin = EnvironmentInfo(name, "tasks", name, "built-in set of tasks", _fields({}))
        found.setdefault(name, builtin)
    return [found[name] for name in sorted(found)]


def _find_in(folder: Path) -> Iterator[EnvironmentInfo]:
    classes: dict[str, _Class] = {}
    scripts: dict[str, Path] = {}  #: The file of each class that may be an environment.
    for number, path in enumerate(sorted(folder.rglob("*.py"))):
        if number >= MAX_FILES:
            raise UsageError(
                f"{folder} has more than {MAX_FILES:,} Python files",
                hint="name the folder of the environments itself in rl.environments",
            )
        tree = _parse(path)
        if tree is None:
            continue
        if _has_tasks(tree):
            doc = _first_line(ast.get_docstring(tree))
            yield EnvironmentInfo(path.stem, "tasks", str(path), doc, _fields({}))
        own = _read_classes(tree)
        # The scripts of Hermes are a few lines around a class of its own.
        classes |= {**_imported_classes(tree), **own}
        scripts |= dict.fromkeys((*own, *_cli_names(tree)), path)
    for name, path in scripts.items():
        if name != BASE_CLASS and _derives(name, classes) and classes[name].constants.get("name"):
            yield _script(name, path, classes)
    # Harbor tasks: NAME/TASK/task.toml in the folder, or TASK/task.toml if it is the set itself.
    files = (*folder.glob("*/task.toml"), *folder.glob("*/*/task.toml"))
    for inner in sorted({file.parent.parent for file in files}):
        yield EnvironmentInfo(inner.name, "tasks", str(inner), "Harbor tasks", _fields({}))


def _read_classes(tree: ast.Module) -> dict[str, _Class]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {node.name: _read_class(node) for node in nodes}


def _imported_classes(tree: ast.Module) -> dict[str, _Class]:
    """Return the classes of modules of Hermes that a script imports from."""
    found: dict[str, _Class] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hermes."):
            path = PACKAGE.joinpath(*str(node.module).split(".")[1:]).with_suffix(".py")
            module = _parse(path)
            found |= _read_classes(module) if module is not None else {}
    return found


def _cli_names(tree: ast.Module) -> list[str]:
    """Return NAME of each call `NAME.cli()`."""
    return [
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "cli"
        and isinstance(node.func.value, ast.Name)
    ]


def _parse(path: Path) -> ast.Module | None:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _has_tasks(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == FUNCTION_NAME:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if any(isinstance(each, ast.Name) and each.id == LIST_NAME for each in targets):
            return True
    return False


def _read_class(node: ast.ClassDef) -> _Class:
    constants: dict[str, Any] = {}
    names: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        for target in targets:
            if not isinstance(target, ast.Name):
                continue
            if isinstance(value, ast.Name):
                names[target.id] = value.id
            else:
                constants[target.id] = _literal(value)
    bases = tuple(filter(None, map(_last_name, node.bases)))
    return _Class(bases, constants, names, _first_line(ast.get_docstring(node)))


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, also as the default of `Field(…)`; None for other code."""
    if isinstance(node, ast.Call):
        given = {each.arg: each.value for each in node.keywords}
        first = node.args[0] if node.args else given.get("default")
        return _literal(first) if first is not None else None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _derives(name: str, classes: Mapping[str, _Class], seen: tuple[str, ...] = ()) -> bool:
    if name == BASE_CLASS:
        return True
    known = classes.get(name)
    if known is None or name in seen:
        return False
    return any(_derives(base, classes, (*seen, name)) for base in known.bases)


def _ancestors(name: str, classes: Mapping[str, _Class]) -> list[_Class]:
    """Return the classes that a class derives from, as far as they were found, and itself last."""
    line: dict[str, _Class] = {}

    def add(name: str) -> None:
        found = classes.get(name)
        if found is not None and name not in line:
            line[name] = found
            for base in found.bases:
                add(base)

    add(name)
    return list(line.values())[::-1]


def _script(name: str, path: Path, classes: Mapping[str, _Class]) -> EnvironmentInfo:
    config = ""
    for each in _ancestors(name, classes):
        config = each.names.get("env_config_cls", config)
    fields: dict[str, Any] = {}
    for each in _ancestors(config, classes):
        fields |= each.constants
    found = classes[name]
    given = _yaml_values(path)
    fields |= {field: value for field, value in given.items() if field not in fields}
    called = str(found.constants["name"])
    return EnvironmentInfo(called, "script", str(path), found.doc, _fields(fields), given)


def _fields(own: Mapping[str, Any]) -> dict[str, Any]:
    return {**AGENT_FIELDS, **TRAINING_FIELDS, **own}


def _yaml_values(script: Path) -> dict[str, Any]:
    """Return the section `env` of the YAML file next to a script; nothing if it is invalid."""
    for path in (script.with_suffix(".yaml"), script.with_name("default.yaml")):
        try:
            loaded = load_yaml(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        env = loaded.get("env") if isinstance(loaded, dict) else None
        return dict(env) if isinstance(env, dict) else {}
    return {}


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


def environment_folders(home: Path, configured: Sequence[str]) -> list[Path]:
    """Return the folders of the settings, then `environments` in the home, here, and in the
    checkout that Hermes runs from."""
    named = (Path(name).expanduser().absolute() for name in configured)
    others = (home, Path.cwd(), PACKAGE.parents[1])
    return [*named, *dict.fromkeys(folder / "environments" for folder in others)]
