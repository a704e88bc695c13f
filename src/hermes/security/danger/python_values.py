"""The names of a Python script, and the texts that its expressions may give, without running it.

A text may have gaps: UNKNOWN for what only the run tells, NAME for a file name or a number.
"""

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Final, TypeVar

from hermes.security.danger.inline import NAME, TEMPORARY, code_tables, python_words
from hermes.security.shell.model import UNKNOWN, Invocation

_T = TypeVar("_T")
MAX_VALUES: Final = 8  #: Values that are followed for one expression.
MAX_DEPTH: Final = 12

OPENERS = python_words("openers")
_SAME, _SAME_METHODS = python_words("same"), python_words("same_methods")
_NUMBERS = python_words("numbers")
_PATHS: Final = frozenset({"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "Path"})
_LISTERS: Final = frozenset({"glob.glob", "glob.iglob"})
_CONSTANTS: Final = {
    "sys.executable": "python3", "os.sep": "/", "os.curdir": ".", "os.devnull": "/dev/null",
    "sys.prefix": "/usr", "os.linesep": "\n", "subprocess.DEVNULL": "/dev/null",
}  # fmt: skip
_CONSTANT_CALLS: Final = {
    **dict.fromkeys(("pathlib.Path.home", "Path.home"), "~"),
    **dict.fromkeys(("os.getcwd", "pathlib.Path.cwd", "Path.cwd", "os.getcwdb"), "."),
    **{
        f"tempfile.{name}": TEMPORARY
        for name in ("mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "gettempdir",
                     "TemporaryFile", "mktemp", "SpooledTemporaryFile")
    },
}  # fmt: skip


class LoopItem:
    """An element of what `iterable` gives, or one member of that element."""

    def __init__(self, iterable: ast.expr, index: int | None = None) -> None:
        self.iterable, self.index = iterable, index


class PythonValues:
    """The names of one script, and the texts that its expressions may give."""

    def __init__(
        self, tree: ast.Module, invocation: Invocation, rank: Callable[[str], int]
    ) -> None:
        self._invocation, self._rank = invocation, rank
        self.imports: dict[str, str] = {}
        self.bound: dict[str, list[ast.expr | LoopItem]] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes = [tree, *self._below(tree)]
        self._values: dict[ast.AST, tuple[str, ...]] = {}
        for node in self.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._functions[node.name] = node
                given = node.args
                named = [each.arg for each in (*given.posonlyargs, *given.args)]
                for name, value in zip(reversed(named), reversed(given.defaults), strict=False):
                    self._add(name, value)
        for node in self.nodes:
            self._bind(node)

    def _below(self, tree: ast.AST) -> Iterator[ast.AST]:
        """Yield all nodes in the order of the text."""
        for child in ast.iter_child_nodes(tree):
            self.parents[child] = tree
            yield child
            yield from self._below(child)

    # Names

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._bind_import(node)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_target(target, value)
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ) if value is not None:
                self._bind_target(target, value)
            case ast.AugAssign(target=ast.Name() as name, op=op, value=value):
                self._add(name.id, ast.BinOp(ast.Constant(UNKNOWN), op, value))
            case (
                ast.For(target=target, iter=values)
                | ast.AsyncFor(target=target, iter=values)
                | (ast.comprehension(target=target, iter=values))
            ):
                self._bind_items(target, values)
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
                self._add(name, value)
            case ast.Call(func=ast.Name(id=name)):
                self._bind_arguments(name, node)

    def _bind_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.partition(".")[0]
                self.imports[name] = alias.name if alias.asname else name
            elif alias.name == "*":
                self.imports |= star_names(node.module or "")
            else:
                self.imports[alias.asname or alias.name] = f"{node.module or '.'}.{alias.name}"

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._add(name, value)
            case (
                (ast.Tuple(elts=names) | ast.List(elts=names)),
                (ast.Tuple(elts=values) | ast.List(elts=values)),
            ) if len(names) == len(values):
                for member, each in zip(names, values, strict=True):
                    self._bind_target(member, each)
            case ((ast.Tuple(elts=names) | ast.List(elts=names)), _):
                for position, member in enumerate(names):
                    if isinstance(member, ast.Name):
                        self._add(member.id, LoopItem(ast.List([value], ast.Load()), position))

    def _bind_items(self, target: ast.expr, iterable: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._add(target.id, LoopItem(iterable))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for position, name in enumerate(target.elts):
                if isinstance(name, ast.Name):
                    self._add(name.id, LoopItem(iterable, position))

    def _bind_arguments(self, name: str, call: ast.Call) -> None:
        """Pass arguments to the parameters of a function of the script."""
        function = self._functions.get(name)
        if function is None:
            return
        parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        for parameter, value in zip(parameters, call.args, strict=False):
            self._add(parameter, value)
        for keyword in call.keywords:
            if keyword.arg in parameters:
                self._add(keyword.arg or "", keyword.value)

    def _add(self, name: str, value: ast.expr | LoopItem) -> None:
        self.bound.setdefault(name, []).append(value)

    def dotted(self, node: ast.expr, depth: int = 0) -> str:
        """Return a name such as `os.system` or `socket.socket().connect`; `?` if unknown."""
        if depth > MAX_DEPTH:
            return "?"
        match node:
            case ast.Name(id=name):
                return self._meaning(name, depth)
            case ast.Attribute(value=owner, attr=attr):
                base = self.dotted(owner, depth + 1)
                return attr if base in ("builtins", "__builtins__") else f"{base}.{attr}"
            case ast.Await(value=inner) | ast.NamedExpr(value=inner):
                return self.dotted(inner, depth + 1)
            case ast.Call():
                return self._call_name(node, depth)
            case ast.Subscript(value=owner, slice=key):
                base = self.dotted(owner, depth + 1)
                if base == "sys.modules":
                    return self.value(key)[0]
                return self.value(key)[0] if base in ("__builtins__", "builtins") else "?"
            case ast.Constant(value=str()):
                return "''"
            case ast.IfExp(body=first, orelse=second) | ast.BoolOp(values=[first, second, *_]):
                names = (self.dotted(first, depth + 1), self.dotted(second, depth + 1))
                return max(names, key=self._rank)
        return "?"

    def _meaning(self, name: str, depth: int) -> str:
        if name in self.imports:
            return self.imports[name]
        bound = self.bound.get(name)
        if bound is None:
            return "?" if name in self._functions else name
        names = [
            self.dotted(each, depth + 1)
            if not isinstance(each, LoopItem)
            else f"{self.dotted(each.iterable, depth + 1)}[]"
            for each in bound
        ]
        known = [each for each in names if not each.startswith("?")]
        return max(known, key=self._rank) if known else "?"

    def _call_name(self, node: ast.Call, depth: int) -> str:
        name = self.dotted(node.func, depth + 1)
        if name in ("__import__", "importlib.import_module", "importlib.__import__") and node.args:
            return max(self.value(node.args[0]), key=self._rank)
        if name == "getattr" and len(node.args) > 1:
            base, attr = self.dotted(node.args[0], depth + 1), self.value(node.args[1])[0]
            return attr if base in ("builtins", "__builtins__") else f"{base}.{attr}"
        return f"{name}()"

    # Values

    def value(self, node: ast.expr | LoopItem, depth: int = 0) -> tuple[str, ...]:
        """Return the texts that an expression may give; UNKNOWN stands for unknown parts."""
        if depth > MAX_DEPTH:
            return (UNKNOWN,)
        if isinstance(node, LoopItem):
            return self._item(node, depth + 1)
        found = self._values.get(node)
        if found is None:
            self._values[node] = (UNKNOWN,)  # for names that are bound to themselves
            found = tuple(dict.fromkeys(islice(self._compute(node, depth + 1), MAX_VALUES)))
            self._values[node] = found = found or (UNKNOWN,)
        return found

    def _compute(self, node: ast.expr, depth: int) -> Iterator[str]:
        match node:
            case ast.Constant(value=value):
                yield _text_of(value)
            case ast.Name(id=name):
                for bound in self.bound.get(name, ()):
                    yield from self.value(bound, depth)
                if name == "__file__":
                    yield NAME
            case ast.JoinedStr(values=parts):
                yield from self._combine([self.value(part, depth) for part in parts], "")
            case (
                ast.FormattedValue(value=inner)
                | ast.Await(value=inner)
                | ast.Starred(value=inner)
                | ast.NamedExpr(value=inner)
            ):
                yield from self.value(inner, depth)
            case ast.BinOp(left=left, op=op, right=right):
                yield from self._operation(left, op, right, depth)
            case ast.Call():
                yield from self._call_value(node, depth)
            case _:
                yield from self._member_value(node, depth)

    def _member_value(self, node: ast.expr, depth: int) -> Iterator[str]:
        match node:
            case ast.Attribute():
                yield from self._attribute(node, depth)
            case ast.Subscript():
                yield from self._subscript(node, depth)
            case ast.List(elts=members) | ast.Tuple(elts=members) | ast.Set(elts=members):
                for member in members[:MAX_VALUES]:
                    yield from self.value(member, depth)
            case ast.ListComp(elt=each) | ast.GeneratorExp(elt=each) | ast.SetComp(elt=each):
                yield from self.value(each, depth)
            case ast.Dict(keys=keys):
                for key in filter(None, keys[:MAX_VALUES]):
                    yield from self.value(key, depth)
            case ast.IfExp(body=first, orelse=second) | ast.BoolOp(values=[first, second, *_]):
                yield from (*self.value(first, depth), *self.value(second, depth))

    def _combine(self, parts: Sequence[tuple[str, ...]], between: str) -> Iterator[str]:
        for choice in islice(product(*parts), MAX_VALUES):
            yield between.join(choice) if between != "/" else _join(choice)

    def _operation(
        self, left: ast.expr, op: ast.operator, right: ast.expr, depth: int
    ) -> Iterator[str]:
        first = self.value(left, depth)
        match op:
            case ast.Add():
                yield from self._combine([first, self.value(right, depth)], "")
            case ast.Div():
                yield from self._combine([first, self.value(right, depth)], "/")
            case ast.Mod():
                given = right.elts if isinstance(right, ast.Tuple) else [right]
                yield from _fill(
                    r"%[-+ #0]*[\d.]*[sdrfixeg]", first, [self.value(g) for g in given]
                )
            case _:
                yield NAME  # a number

    def _attribute(self, node: ast.Attribute, depth: int) -> Iterator[str]:
        fixed = _CONSTANTS.get(self.dotted(node))
        if fixed is not None:
            yield fixed
        elif node.attr in ("name", "stem", "suffix"):
            owner = self.value(node.value, depth)[0]
            opened = isinstance(node.value, ast.Name) and UNKNOWN not in owner
            yield owner if opened and owner.startswith(TEMPORARY) else NAME
        elif node.attr == "parent":
            yield from (_join((owner, "..")) for owner in self.value(node.value, depth))
        elif node.attr == "path":
            yield from self.value(node.value, depth)

    def _subscript(self, node: ast.Subscript, depth: int) -> Iterator[str]:
        owner = self.dotted(node.value)
        if owner == "os.environ":
            yield from self._variable(node.slice)
        elif owner == "sys.argv":
            yield from self._argument(node.slice)
        elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            method = node.value.func.attr
            yield NAME if method in ("split", "rsplit", "partition", "rpartition") else UNKNOWN
        elif isinstance(node.value, ast.Call) or not isinstance(node.slice, ast.Slice):
            yield from self.value(node.value, depth)

    def _variable(self, name: ast.expr | None) -> Iterator[str]:
        text = self.value(name)[0] if name is not None else UNKNOWN
        yield "~" if text == "HOME" else self._invocation.known.get(text, UNKNOWN)

    def _argument(self, index: ast.expr) -> Iterator[str]:
        """`sys.argv[1]`, from the command line after the code."""
        words = self._invocation.arguments
        number = self.value(index)[0]
        start = next((i for i, word in enumerate(words) if word in ("-", "-c")), None)
        if start is None or not number.isdigit() or not int(number):
            return
        given = words[start + (2 if words[start] == "-c" else 1) :]
        yield from given[int(number) - 1 : int(number)]

    def _call_value(self, node: ast.Call, depth: int) -> Iterator[str]:
        name = self.dotted(node.func)
        first = node.args[0] if node.args else None
        if name in _PATHS or name == "os.path.join":
            parts = [self.value(each, depth) for each in node.args]
            yield from self._combine(parts, "/") if parts else (".",)
        elif name in _CONSTANT_CALLS:
            yield _CONSTANT_CALLS[name]
        elif name in _SAME or name in _LISTERS or name in OPENERS:
            yield from self.value(first, depth) if first is not None else ()
        elif name in _NUMBERS:
            yield NAME
        elif name in ("os.getenv", "os.environ.get"):
            yield from self._variable(first)
            yield from self.value(node.args[1], depth) if len(node.args) > 1 else ()
        elif name == "os.path.dirname" and first is not None:
            yield from map(_folder_of, self.value(first, depth))
        elif name in ("os.scandir", "os.walk"):
            yield from (_join((v, NAME)) for v in self.value(first, depth)) if first else (NAME,)
        elif isinstance(node.func, ast.Name) and node.func.id in self._functions:
            yield from self._returned(self._functions[node.func.id], depth)
        elif isinstance(node.func, ast.Attribute):
            yield from self._method(node, node.func, depth)

    def _returned(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, depth: int
    ) -> Iterator[str]:
        for each in ast.walk(function):
            if isinstance(each, ast.Return) and each.value is not None:
                yield from self.value(each.value, depth)

    def _method(self, node: ast.Call, function: ast.Attribute, depth: int) -> Iterator[str]:
        owner, method = self.value(function.value, depth), function.attr
        given = [self.value(each, depth) for each in node.args]
        if method in _SAME_METHODS or (method == "open" and owner != (UNKNOWN,)):
            yield from owner
        elif method in ("joinpath", "glob", "rglob"):
            yield from self._combine([owner, *given], "/")
        elif method == "iterdir":
            yield from (_join((each, NAME)) for each in owner)
        elif method == "with_name":
            yield from (_join((each, "..", NAME)) for each in owner)
        elif method == "format":
            yield from _fill(r"\{[^{}]*\}", owner, given)
        elif method == "replace" and len(given) == 2:
            yield from (o.replace(a, b) for o, a, b in product(owner, *given) if a)
        elif method == "join" and node.args:
            words = self.words(node.args[0])
            yield owner[0].join(words) if words else UNKNOWN
        elif method in ("strftime", "isoformat", "hexdigest"):
            yield NAME

    def _item(self, item: LoopItem, depth: int) -> tuple[str, ...]:
        iterable = item.iterable
        if isinstance(iterable, ast.Name):
            bound = self.bound.get(iterable.id, [])
            found = [
                value
                for each in bound
                if not isinstance(each, LoopItem)
                for value in self._item(LoopItem(each, item.index), depth + 1)
            ]
            return tuple(dict.fromkeys(found))[:MAX_VALUES] or (UNKNOWN,)
        if item.index is None or depth > MAX_DEPTH:
            return self.value(iterable, depth)
        match iterable:
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return self._column(members, item.index, depth)
            case ast.Call(func=function, args=arguments):
                return self._call_column(self.dotted(function), function, arguments, item.index)
        return (UNKNOWN,)

    def _column(self, members: list[ast.expr], index: int, depth: int) -> tuple[str, ...]:
        found: list[str] = []
        for member in members[:MAX_VALUES]:
            if isinstance(member, (ast.Tuple, ast.List)) and index < len(member.elts):
                found += self.value(member.elts[index], depth)
            elif isinstance(member, ast.Call):
                name = self.dotted(member.func)
                found.append(TEMPORARY if name == "tempfile.mkstemp" else UNKNOWN)
        return tuple(dict.fromkeys(found))[:MAX_VALUES] or (UNKNOWN,)

    def _call_column(
        self, name: str, function: ast.expr, arguments: list[ast.expr], index: int
    ) -> tuple[str, ...]:
        if name == "enumerate" and arguments:
            return self._item(LoopItem(arguments[0]), 1) if index else (NAME,)
        if name == "zip" and index < len(arguments):
            return self._item(LoopItem(arguments[index]), 1)
        if name == "os.walk" and arguments:
            return self.value(LoopItem(ast.Call(function, arguments, []))) if not index else (NAME,)
        if isinstance(function, ast.Attribute) and function.attr == "items":
            return self._dict_column(function.value, index)
        return (UNKNOWN,)

    def _dict_column(self, node: ast.expr, index: int) -> tuple[str, ...]:
        tables: list[ast.expr | LoopItem] = [node]
        if isinstance(node, ast.Name):
            tables = list(self.bound.get(node.id, ()))
        found: list[str] = []
        for table in tables:
            if isinstance(table, ast.Dict):
                members = table.values if index else [key for key in table.keys if key]
                found += [text for each in members[:MAX_VALUES] for text in self.value(each)]
        return tuple(dict.fromkeys(found))[:MAX_VALUES] or (UNKNOWN,)

    def words(self, node: ast.expr, depth: int = 0, choice: int = 0) -> list[str] | None:
        """Return the members of a list of texts; None if it is not known to be one.

        Where a member may have several texts, `choice` selects one of them.
        """
        if depth > MAX_DEPTH:
            return None
        match node:
            case ast.List(elts=members) | ast.Tuple(elts=members):
                found: list[str] = []
                for member in members:
                    if isinstance(member, ast.Starred):
                        found += self.words(member.value, depth + 1, choice) or [UNKNOWN]
                    else:
                        found.append(_choose(self.value(member), choice))
                return found
            case ast.Name(id=name):
                lists = [b for b in self.bound.get(name, ()) if not isinstance(b, LoopItem)]
                known = [self.words(each, depth + 1, choice) for each in lists]
                return _choose([each for each in known if each is not None] or [None], choice)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first = self.words(left, depth + 1, choice)
                second = self.words(right, depth + 1, choice)
                return None if first is None else [*first, *(second or [UNKNOWN])]
            case ast.Call(func=ast.Attribute(attr="split", value=owner), args=[]):
                text = _choose(self.value(owner), choice)
                return text.split() if UNKNOWN not in text else None
            case ast.Call(args=[inner, *_]) if self.dotted(node.func) == "shlex.split":
                return ["sh", "-c", _choose(self.value(inner), choice)]
        return None


def _choose(values: Sequence[_T], choice: int) -> _T:
    return values[min(choice, len(values) - 1)]


def _text_of(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return UNKNOWN if value is None or isinstance(value, bool) else str(value)


def _join(parts: Sequence[str]) -> str:
    return posixpath.join(*parts) if parts else ""


def _folder_of(path: str) -> str:
    return NAME if path == NAME else posixpath.dirname(path) or "."


def _fill(pattern: str, texts: Sequence[str], given: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Put values into the places of a format."""
    for text in texts:
        values = iter(given)
        yield re.sub(pattern, lambda _, values=values: next(values, (UNKNOWN,))[0], text)  # type: ignore[misc]


def star_names(module: str) -> dict[str, str]:
    """Return the functions with an effect that `from module import *` brings."""
    tables = code_tables()
    known = [*tables["python_dangers"], *tables["python_copies"]]
    for words in tables["python"].values():
        known += words.split()
    names = (name.rpartition(".") for name in known)
    return {last: f"{module}.{last}" for owner, _, last in names if owner == module}
