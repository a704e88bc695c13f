"""Follow the values of a Python script through its variables."""

import ast
import base64
import binascii
import codecs
import contextlib
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final

from hermes.security import SECRET_NAME
from hermes.security.danger.files import VITAL
from hermes.skills.scanner.rules import table_pattern, word_list
from hermes.skills.scanner.signatures import STARTUP as PLACES
from hermes.skills.scanner.signatures import is_credential_store, is_env_file

# Constant folding: names, texts, paths and lists that are known without running the script

Value = str | int | tuple["Value", ...]

MAX_LENGTH: Final = 20_000  #: Characters of a text, and items of a list, that are stored.
_TRANSPARENT_METHODS = word_list("transparent_methods")
_TRANSPARENT_FUNCTIONS = word_list("transparent_functions")
_JOINS = word_list("path_joins")
_ROT13: Final = frozenset({"rot13", "rot_13", "rot-13"})


class ConstantValues:
    """Known names and constant values, filled node by node; children come before parents."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {"__file__": "__file__"}
        """The meaning of each name of the script: `p` is `pathlib.Path`."""
        self.variables: dict[str, Value] = {"__file__": "__file__"}
        self._dotted: dict[ast.AST, str] = {}
        self._folded: dict[ast.AST, Value] = {}

    def dotted(self, node: ast.AST) -> str:
        """Return a name such as `os.system` or `socket.socket().connect`, or ""."""
        return self._dotted.get(node, "")

    def folded(self, node: ast.AST) -> Value | None:
        return self._folded.get(node)

    def text(self, node: ast.AST | None) -> str:
        value = self._folded.get(node) if node is not None else None
        return value if isinstance(value, str) else ""

    def add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                self.names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            elif alias.asname:
                self.names[alias.asname] = alias.name
            else:
                top = alias.name.partition(".")[0]
                self.names[top] = top

    def read(self, node: ast.AST) -> None:
        """Derive what is known of a node from its children."""
        dotted = self._name_of(node)
        if dotted and len(dotted) < 300:
            self._dotted[node] = dotted
        value = self._value_of(node)
        if value is not None and (isinstance(value, int) or len(value) <= MAX_LENGTH):
            self._folded[node] = value

    def _name_of(self, node: ast.AST) -> str:
        match node:
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(value=owner, attr=attr):
                base = self.dotted(owner)
                return f"{base}.{attr}" if base else f"?.{attr}"
            case ast.Await(value=inner):
                return self.dotted(inner)
            case ast.Call(func=function, args=arguments):
                name = self.dotted(function)
                if name in ("__import__", "importlib.import_module") and arguments:
                    return self.text(arguments[0])
                if name == "getattr" and len(arguments) > 1:
                    return f"{self.dotted(arguments[0])}.{self.text(arguments[1])}"
                return f"{name}()" if name else ""
        return ""

    def _value_of(self, node: ast.AST) -> Value | None:
        match node:
            case ast.Constant(value=value):
                return _literal(value)
            case ast.Name(id=name):
                return self.variables.get(name)
            case ast.FormattedValue(value=inner):
                return self.folded(inner)
            case ast.Subscript():
                return self._subscript_value(node)
            case ast.Attribute() if self.dotted(node) == "sys.executable":
                return "python3"
            case ast.Attribute(value=owner, attr="parent"):
                path = self.text(owner)
                return f"{path}/.." if path else None
            case ast.Call():
                return self._call_value(node)
        return self._composite_value(node)

    def _composite_value(self, node: ast.AST) -> Value | None:
        match node:
            case ast.JoinedStr(values=parts):
                return self._joined([self.folded(part) for part in parts], "")
            case ast.List(elts=members) | ast.Tuple(elts=members) | ast.Set(elts=members):
                known = [self.folded(member) for member in members]
                return None if None in known else tuple(each for each in known if each is not None)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
                return _add_values(self.folded(left), self.folded(right), isinstance(op, ast.Div))
            case (
                ast.GeneratorExp(elt=each, generators=[loop])
                | ast.ListComp(elt=each, generators=[loop])
            ):
                return self._spelled(each, loop)
        return None

    def _subscript_value(self, node: ast.Subscript) -> Value | None:
        if self.dotted(node.value) == "os.environ" and self.text(node.slice) == "HOME":
            return "~"
        whole = self.folded(node.value)
        if isinstance(node.slice, ast.Slice):
            backwards = isinstance(node.slice.step, ast.UnaryOp) and isinstance(
                node.slice.step.op, ast.USub
            )
            return whole[::-1] if backwards and isinstance(whole, str) else None
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            path, steps = self.text(node.value.value), self.folded(node.slice)
            return (
                path + "/.." * (steps + 1)
                if path and isinstance(steps, int) and steps < 9
                else None
            )
        return None

    def _spelled(self, each: ast.expr, loop: ast.comprehension) -> Value | None:
        """Fold `chr(c) for c in (111, 115)`."""
        codes = self.folded(loop.iter)
        if isinstance(each, ast.Call) and self.dotted(each.func) == "chr" and codes is not None:
            return _join_characters(codes)
        return None

    def _call_value(self, node: ast.Call) -> Value | None:
        name, values = self.dotted(node.func), [self.folded(each) for each in node.args]
        first = values[0] if values else None
        if name in ("pathlib.Path.home", "Path.home"):
            return "~"
        if name in _JOINS or (name == "Path" and values):
            return self._joined(values, "/") if values else None
        if name in _TRANSPARENT_FUNCTIONS:
            return _join_characters(first) if isinstance(first, tuple) else first
        if name == "chr" or (name == "map" and len(values) > 1):
            return _join_characters(first if name == "chr" else values[1])
        if name in ("os.getenv", "os.environ.get") and first == "HOME":
            return "~"
        if name in DECODERS:
            return _decode_call(name, values)
        return self._method(node, values)

    def _method(self, node: ast.Call, values: list[Value | None]) -> Value | None:
        if not isinstance(node.func, ast.Attribute):
            return None
        owner, method = self.folded(node.func.value), node.func.attr
        if not isinstance(owner, str):
            return None
        if method == "join" and values and isinstance(values[0], (tuple, str)):
            return self._joined(list(values[0]), owner)
        if method == "joinpath":
            return self._joined([owner, *values], "/")
        if method == "replace" and len(values) == 2:
            old, new = values
            return (
                owner.replace(old, new)
                if isinstance(old, str) and old and isinstance(new, str)
                else None
            )
        return owner if method in _TRANSPARENT_METHODS else None

    def _joined(self, parts: list[Value | None], between: str) -> str | None:
        if not all(isinstance(part, (str, int)) for part in parts):
            return None
        texts = list(map(str, parts))
        return between.join(texts) if sum(map(len, texts)) <= MAX_LENGTH else None


def _literal(value: object) -> Value | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _add_values(left: Value | None, right: Value | None, path: bool) -> Value | None:
    if isinstance(left, str) and isinstance(right, str):
        return f"{left}/{right}" if path else left + right
    if path and left is None and isinstance(right, str):
        return f"?/{right}"
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    return None


def _join_characters(codes: Value | None) -> Value | None:
    if isinstance(codes, int):
        codes = (codes,)
    if not isinstance(codes, tuple):
        return codes
    good = [code for code in codes if isinstance(code, int) and 0 <= code < 0x110000]
    return "".join(map(chr, good)) if len(good) == len(codes) else None


def _decode_hex(text: str) -> bytes:
    return bytes.fromhex(text)


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(re.sub(r"\s", "", text) + "==", altchars=b"-_" if "-" in text else None)


DECODERS: Final[dict[str, Callable[[str], bytes] | None]] = {
    "base64.b64decode": _decode_base64,
    "base64.urlsafe_b64decode": _decode_base64,
    "base64.decodebytes": _decode_base64,
    "base64.b32decode": base64.b32decode,
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": _decode_hex,
    "binascii.a2b_base64": _decode_base64,
    "bytes.fromhex": _decode_hex,
    "codecs.decode": None,
}


def _decode_call(name: str, values: list[Value | None]) -> str | None:
    text = values[0] if values else None
    if not isinstance(text, str):
        return None
    decode = DECODERS[name]
    if decode is None:
        kind = str(values[1]) if len(values) > 1 else ""
        if kind in _ROT13:
            return codecs.decode(text, "rot13")
        decode = _decode_hex if kind == "hex" else _decode_base64 if kind == "base64" else None
    with contextlib.suppress(ValueError, binascii.Error):
        return decode(text).decode("latin-1") if decode else None
    return None


Labels = frozenset[str]

SECRET, ENVIRONMENT, NETWORK, DECODED = "secret", "environment", "network", "decoded"
REQUEST, INPUT, HOME = "request", "input", "home"
SCREEN, TYPED = "screen or clipboard", "typed"
STARTUP, MACHINE, ENV_FILE, FILES = "startup", "machine", "env file", "files of the home"
KEY: Final = "key:"  #: Followed by the name of an environment variable.
NO_LABELS: Final[Labels] = frozenset()
MAX_ROUNDS: Final = 8
_NETWORK = table_pattern("python_dataflow_network")
_LABELS_BY_FUNCTION: Final = {
    **dict.fromkeys(word_list("screen_functions"), SCREEN),
    **dict.fromkeys(("pynput.keyboard.Listener", "keyboard.record", "keyboard.on_press"), TYPED),
    **dict.fromkeys((*DECODERS, *word_list("unpackers")), DECODED),
    "input": INPUT,
}
_TEXT_BUILDERS: Final = frozenset({*DECODERS, "map", "chr"})
_REQUEST_FIELDS: Final = frozenset({"self.path", "self.rfile", "self.headers"})
_OUTPUT_FUNCTIONS = word_list("output_functions")
_ABOUT_MACHINE = table_pattern("python_dataflow_about_machine")
_CLIPBOARD = re.compile(r"(?:pbpaste|wl-paste|xclip|xsel)\b")
_MUTATING_METHODS: Final = frozenset(
    {"append", "extend", "add", "update", "insert", "write", "put", "setdefault"}
)
_COPIES: Final = frozenset({"shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.move"})
_SEARCHES: Final = frozenset({"walk", "rglob", "glob", "iterdir", "listdir", "scandir"})
_LISTS: Final = frozenset({"os.walk", "os.listdir", "os.scandir", "pathlib.Path"})
_ALL_OF_HOME = re.compile(r"~(?:/Documents|/Desktop)?(?:/\*\*)?(?:/\*)?/?")
_MAX_PATH_CHARS: Final = 400
_MATCH_ALL: Final = frozenset({"*", "**", "**/*", "*.*"})


class DataFlow:
    """A parsed script; `labels` returns where the value of a node comes from."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(ast.walk(tree))
        self.values = ConstantValues()
        self._labels: dict[ast.AST, Labels] = {}
        self._name_labels: dict[str, Labels] = {}
        self._parameters: dict[str, list[str]] = {}
        self._copies: set[str] = set()
        self._serves = False
        self._prepare()
        for _ in range(MAX_ROUNDS):
            before = len(self.values.names), len(self.values.variables), dict(self._name_labels)
            for node in reversed(self.nodes):
                self.values.read(node)
                self._labels[node] = self._compute_labels(node)
            for node in self.nodes:
                self._store(node)
            if before == (len(self.values.names), len(self.values.variables), self._name_labels):
                break

    def labels(self, *nodes: ast.AST) -> Labels:
        return reduce(
            frozenset.union, (self._labels.get(node, NO_LABELS) for node in nodes), NO_LABELS
        )

    def _prepare(self) -> None:
        for node in self.nodes:
            match node:
                case ast.Import() | ast.ImportFrom():
                    self.values.add_import(node)
                case (
                    ast.FunctionDef(name=name, args=given)
                    | ast.AsyncFunctionDef(name=name, args=given)
                ):
                    self._parameters[name] = [
                        each.arg for each in (*given.posonlyargs, *given.args)
                    ]
                case ast.ClassDef(bases=bases):
                    self._serves = self._serves or any("Handler" in ast.unparse(b) for b in bases)

    def _compute_labels(self, node: ast.AST) -> Labels:
        """Return the labels of a node whose children are known."""
        if isinstance(node, ast.stmt):
            return NO_LABELS
        text = self.values.text(node)
        if text and len(text) < _MAX_PATH_CHARS and "\n" not in text:
            copied = frozenset({SECRET}) if text in self._copies else NO_LABELS
            return copied | self._spelled(node) | _path_labels(text, isinstance(node, ast.Constant))
        match node:
            case ast.Name(id=name):
                return self._name_labels.get(name, NO_LABELS)
            case ast.Call():
                return self._call_labels(node)
            case ast.Attribute():
                return self._attribute_labels(node)
            case ast.Subscript(value=whole, slice=part):
                if self.values.dotted(whole) == "os.environ":
                    return _variable_labels(self.values.text(part))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._in_folder(left, right)
        return self.labels(*ast.iter_child_nodes(node))

    def _spelled(self, node: ast.AST) -> Labels:
        """Label texts that are written as numbers or encoded, and variables that hold them."""
        if isinstance(node, ast.Name):
            return self._name_labels.get(node.id, NO_LABELS) & {DECODED}
        if not isinstance(node, ast.Call):
            return NO_LABELS
        coded = self.values.dotted(node.func) in _TEXT_BUILDERS
        return frozenset({DECODED}) if coded else self.labels(*node.args) & {DECODED}

    def _attribute_labels(self, node: ast.Attribute) -> Labels:
        name = self.values.dotted(node)
        if name == "os.environ":
            return frozenset({ENVIRONMENT})
        if name == "sys.argv":
            return frozenset({INPUT})
        if (self._serves and name in _REQUEST_FIELDS) or name.startswith("flask.request."):
            return frozenset({REQUEST})
        return self.labels(node.value) | self._name_labels.get(f".{node.attr}", NO_LABELS)

    def _call_labels(self, node: ast.Call) -> Labels:
        name = self.values.dotted(node.func)
        if name in ("os.getenv", "os.environ.get") and node.args:
            return _variable_labels(self.values.text(node.args[0]))
        if name == "os.path.join" and len(node.args) > 1:
            return self._in_folder(node.args[0], *node.args[1:])
        carried = self.labels(node.func, *node.args, *(each.value for each in node.keywords))
        first = self.values.text(node.args[0]) if node.args else ""
        if name.endswith((".glob", ".rglob")) and first not in _MATCH_ALL:
            carried -= {HOME}
        return carried.union(self._source_labels(node, name, first))

    def _source_labels(self, node: ast.Call, name: str, first: str) -> Iterator[str]:
        """Yield the labels that the function itself introduces."""
        if name.rpartition(".")[2] in _SEARCHES and HOME in self.labels(node.func, *node.args):
            yield FILES
        if name in _OUTPUT_FUNCTIONS and node.args:
            value = self.values.folded(node.args[0])
            program = value[0] if isinstance(value, tuple) and value else value
            program = program if isinstance(program, str) else ""
            if _ABOUT_MACHINE.match(program):
                yield MACHINE
            if _CLIPBOARD.match(program):
                yield SCREEN
        if name in _LISTS and first in VITAL:
            yield HOME
        if name in _LABELS_BY_FUNCTION:
            yield _LABELS_BY_FUNCTION[name]
        if self.is_network(name):
            yield NETWORK

    def _in_folder(self, folder: ast.expr, *rest: ast.expr) -> Labels:
        """A path in a folder loses the label of that folder, unless a search found it."""
        inner = self.labels(*rest)
        return (self.labels(folder) if HOME in inner else self.labels(folder) - {HOME}) | inner

    def is_network(self, name: str) -> bool:
        return _NETWORK.match(name) is not None

    def _store(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ) if value:
                self._bind(target, value)
            case ast.AugAssign(target=target, value=value):
                self._mark(target, self.labels(value))
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._mark(node.target, self.labels(node.iter))
                members = self.values.folded(node.iter)
                if isinstance(node.target, ast.Name) and isinstance(members, tuple) and members:
                    self.values.variables.setdefault(node.target.id, members[0])
            case ast.withitem(context_expr=value, optional_vars=target) if target is not None:
                self._bind(target, value)
            case ast.Call():
                self._bind_arguments(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                returned = [
                    each.value
                    for each in ast.walk(node)
                    if isinstance(each, ast.Return) and each.value
                ]
                self._add(name, self.labels(*returned))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        self._mark(target, self.labels(value))
        if not isinstance(target, ast.Name):
            return
        known, name = self.values.folded(value), target.id
        if known is None or self.values.variables.get(name, known) != known:
            self.values.variables.pop(name, None)
        else:
            self.values.variables[name] = known
        dotted = self.values.dotted(value)
        if dotted and not dotted.startswith("?") and dotted != name:
            self.values.names.setdefault(name, dotted)

    def _mark(self, target: ast.expr, labels: Labels) -> None:
        match target:
            case ast.Name(id=name):
                self._add(name, labels)
            case ast.Tuple(elts=members) | ast.List(elts=members):
                for member in members:
                    self._mark(member, labels)
            case ast.Subscript(value=inner) | ast.Starred(value=inner):
                self._mark(inner, labels)
            case ast.Attribute(attr=attr):
                self._add(f".{attr}", labels)

    def _bind_arguments(self, node: ast.Call) -> None:
        """Pass arguments to parameters of functions in the script, and into growing lists."""
        if isinstance(node.func, ast.Name) and node.func.id in self._parameters:
            names = self._parameters[node.func.id]
            for name, value in zip(names, node.args, strict=False):
                self._add(name, self.labels(value))
            for keyword in node.keywords:
                if keyword.arg in names:
                    self._add(keyword.arg, self.labels(keyword.value))
        elif self.values.dotted(node.func) in _COPIES and SECRET in self.labels(*node.args[:1]):
            self._copies.update(filter(None, map(self.values.text, node.args[1:2])))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATING_METHODS:
            self._mark(node.func.value, self.labels(*node.args))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("save", "dump"):
            for target in node.args:
                self._mark(target, self.labels(node.func.value, *node.args))

    def _add(self, name: str, labels: Labels) -> None:
        if labels:
            self._name_labels[name] = self._name_labels.get(name, NO_LABELS) | labels

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes if isinstance(node, ast.Call))


def _path_labels(text: str, literal: bool) -> Labels:
    if _ALL_OF_HOME.fullmatch(text):
        return NO_LABELS if literal else frozenset({HOME})
    if PLACES.search(text) and len(text) > 1:
        return frozenset({STARTUP})
    if is_env_file(text):
        return frozenset({ENV_FILE})
    return frozenset({SECRET}) if is_credential_store(text) else NO_LABELS


def _variable_labels(name: str) -> Labels:
    return frozenset({f"{KEY}{name}"}) if SECRET_NAME.search(name) else NO_LABELS
