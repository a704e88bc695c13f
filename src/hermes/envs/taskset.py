"""Sets of tasks: files of the user, modules, folders of Harbor tasks, and built-in sets."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hermes.core.errors import HermesError, UsageError
from hermes.envs.task import Task

T = TypeVar("T")

LIST_NAME, FUNCTION_NAME = "TASKS", "load_tasks"
MODULE_PREFIX = "hermes_taskset_"
"""Of modules made from files, so that a file `json.py` does not replace the module of Python."""
SOURCE_HINT = (
    "name a file such as tasks.py, a module as package.module:NAME, a folder of Harbor tasks, or"
    " one of: {names}"
)


def load_tasks(source: str, options: Mapping[str, str] | None = None) -> list[Task]:
    """Return the tasks of a set. Raises `UsageError` for anything that is wrong with it.

    `source` is a built-in name; a folder with Harbor tasks; `file.py` or `package.module`, which
    has a list `TASKS` or a function `load_tasks(**options)`; or one of these two with `:NAME`, the
    name of another list or function.
    """
    options = dict(options or {})
    if source in BUILTIN:
        tasks = _call(BUILTIN[source], options, source)
    elif Path(source).is_dir():
        tasks = _call(lambda: _harbor(source), options, source)
    else:
        tasks = _from_python(source, options)
    return _checked(tasks, source)


def select_tasks(tasks: Sequence[Task], patterns: Iterable[str] = (), limit: int = 0) -> list[Task]:
    """Return the tasks whose keys match one of the glob patterns, at most `limit` if it is not 0.
    Raises `UsageError` for a pattern that matches no task."""
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(task.key, pattern) for task in tasks):
            close = get_close_matches(pattern, [task.key for task in tasks], n=1)
            raise UsageError(
                f"no task matches {pattern!r}",
                hint=f"did you mean {close[0]}?" if close else "`hermes eval tasks` lists them",
            )
    chosen = [
        task
        for task in tasks
        if not patterns or any(fnmatchcase(task.key, pattern) for pattern in patterns)
    ]
    return chosen[:limit] if limit else chosen


def _checked(tasks: Any, source: str) -> list[Task]:
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Iterable):
        raise UsageError(f"{source}: expected a list of tasks, not {type(tasks).__name__}")
    found = _guard(source, lambda: list(tasks))
    keys: set[str] = set()
    for number, task in enumerate(found, start=1):
        if not isinstance(task, Task):
            raise UsageError(
                f"{source}: item {number} is a {type(task).__name__}, not a hermes.envs.Task"
            )
        if task.key in keys:
            raise UsageError(
                f"{source}: two tasks have the key {task.key!r}",
                hint="give each task its own name: Task(name=…, …)",
            )
        keys.add(task.key)
    if not found:
        raise UsageError(f"{source} has no tasks")
    return found


# Built-in sets. The imports are late: the modules import this one, and each set is needed rarely.


def _terminal_bench_2(*, folder: str) -> Sequence[Task]:
    from hermes.envs.benchmarks import terminal_bench_2_tasks

    return terminal_bench_2_tasks(folder)


def _tblite(*, folder: str) -> Sequence[Task]:
    from hermes.envs.benchmarks import tblite_tasks

    return tblite_tasks(folder)


def _terminal_test() -> Sequence[Task]:
    from hermes.envs.benchmarks import terminal_test_tasks

    return terminal_test_tasks()


def _swe(*, file: str, mode: str = "fix") -> Sequence[Task]:
    from hermes.envs.benchmarks import swe_tasks

    if mode == "fix" or mode == "implement":
        return swe_tasks(file, mode=mode)
    raise UsageError(f"mode={mode}: expected fix or implement")


def _yc_bench(*, presets: str = "", seeds: str = "") -> Sequence[Task]:
    from hermes.envs.benchmarks import yc_bench_tasks

    given: dict[str, Any] = {}
    if presets:
        given["presets"] = presets.split(",")
    if seeds:
        try:
            given["seeds"] = [int(seed) for seed in seeds.split(",")]
        except ValueError:
            raise UsageError(f"seeds={seeds}: expected numbers separated by commas") from None
    return yc_bench_tasks(**given)


def _harbor(folder: str) -> Sequence[Task]:
    from hermes.envs.harbor import load_tasks as load_harbor_tasks

    return load_harbor_tasks(folder)


BUILTIN: dict[str, Callable[..., Sequence[Task]]] = {
    "terminal-test": _terminal_test,
    "terminal-bench-2": _terminal_bench_2,
    "tblite": _tblite,
    "swe": _swe,
    "yc-bench": _yc_bench,
}


# Python code of the user.


def _from_python(source: str, options: dict[str, str]) -> Any:
    place, colon, name = source.rpartition(":")
    if not colon or not name.isidentifier():
        place, name = source, ""
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place, source)
    names = [name] if name else [LIST_NAME, FUNCTION_NAME]
    found = next((getattr(module, each) for each in names if hasattr(module, each)), None)
    if found is None:
        expected = name or f"{LIST_NAME} or {FUNCTION_NAME}()"
        raise UsageError(
            f"{place} has no {expected}",
            hint=f"define {LIST_NAME} = [Task(…), …], or name another list: {place}:NAME",
        )
    return _call(found, options, source) if callable(found) else _plain(found, options, source)


def _plain(tasks: Any, options: dict[str, str], source: str) -> Any:
    if options:
        raise UsageError(
            f"{source} takes no options, because its tasks are a list",
            hint=f"define a function instead: def {FUNCTION_NAME}({next(iter(options))}): …",
        )
    return tasks


def _call(function: Callable[..., Any], options: dict[str, str], source: str) -> Any:
    """Call a function of a task set with the options of the user."""
    try:
        inspect.signature(function).bind(**options)
    except TypeError as error:
        raise UsageError(
            f"{source}: {error}", hint="options are given as --option NAME=VALUE"
        ) from error
    return _guard(source, lambda: function(**options))


def _load_file(path: Path) -> ModuleType:
    """Run a file as a module. It may import modules of its own folder."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    path = path.resolve()
    name = f"{MODULE_PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    loader = spec.loader
    assert loader is not None  # there is one for every name that ends in .py
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last: a file there must not replace our modules
    sys.modules[name] = module  # postponed annotations are looked up there
    _guard(str(path), partial(loader.exec_module, module))
    return module


def _import(name: str, source: str) -> ModuleType:
    names = ", ".join(BUILTIN)
    try:
        known = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a parent is missing; not the name of a module
        known = False
    except Exception as error:  # the parent package is code of the user
        raise _code_error(error, source) from error
    if not known:
        close = get_close_matches(source, BUILTIN, n=1)
        hint = f"did you mean {close[0]}?" if close else SOURCE_HINT.format(names=names)
        raise UsageError(f"there is no task set {source}", hint=hint)
    return _guard(source, lambda: importlib.import_module(name))


def _guard(source: str, run: Callable[[], T]) -> T:
    """Run code of the user. Raises `UsageError` with the place of its exception."""
    try:
        return run()
    except HermesError:
        raise
    except (Exception, SystemExit) as error:
        raise _code_error(error, source) from error


def _code_error(error: BaseException, source: str) -> UsageError:
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError) and error.filename:
        return UsageError(f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}")
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    file = source if source.endswith(".py") else ""
    frames = [frame for frame in own if frame.filename == file] or own
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else source
    return UsageError(f"{where}: {what}")
