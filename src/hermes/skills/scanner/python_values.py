"""Values of a Python script that can be told without running it: names, texts, paths, lists."""

import ast
import base64
import binascii
import codecs
import contextlib
import re
from collections.abc import Callable
from typing import Final

Value = str | int | tuple["Value", ...]

LONGEST: Final = 20_000
"""Characters of a text, and members of a list, that are kept."""
_PASS_ON: Final = frozenset({
    "decode", "encode", "strip", "expanduser", "resolve", "absolute", "as_posix", "lower", "rstrip",
})  # fmt: skip
"""Methods whose result is as good as what they are called on."""
_FIRST: Final = frozenset({
    "str", "bytes", "os.path.expanduser", "os.path.abspath", "os.path.realpath", "os.path.normpath",
    "os.path.expandvars", "os.fspath", "bytearray", "repr",
})  # fmt: skip
_JOINS: Final = frozenset({
    "os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "posixpath.join",
})  # fmt: skip
_ROT13: Final = frozenset({"rot13", "rot_13", "rot-13"})


class Values:
    """Fills itself node by node; children are read before their parents."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {"__file__": "__file__"}
        """What a name of the script stands for: `p` for `pathlib.Path`."""
        self.variables: dict[str, Value] = {"__file__": "__file__"}
        self._dotted: dict[ast.AST, str] = {}
        self._folded: dict[ast.AST, Value] = {}

    def dotted(self, node: ast.AST) -> str:
        """`os.system`, `socket.socket().connect`; "" when unknown."""
        return self._dotted.get(node, "")

    def folded(self, node: ast.AST) -> Value | None:
        return self._folded.get(node)

    def text(self, node: ast.AST | None) -> str:
        value = self._folded.get(node) if node is not None else None
        return value if isinstance(value, str) else ""

    def learn_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                self.names[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
            elif alias.asname:
                self.names[alias.asname] = alias.name
            else:
                top = alias.name.partition(".")[0]
                self.names[top] = top

    def read(self, node: ast.AST) -> None:
        """What is known of one node, from what is known of its children."""
        dotted = self._name_of(node)
        if dotted and len(dotted) < 300:
            self._dotted[node] = dotted
        value = self._value_of(node)
        if value is not None and (isinstance(value, int) or len(value) <= LONGEST):
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
                return self._part(node)
            case ast.Attribute() if self.dotted(node) == "sys.executable":
                return "python3"
            case ast.Attribute(value=owner, attr="parent"):
                path = self.text(owner)
                return f"{path}/.." if path else None
            case ast.Call():
                return self._called(node)
        return self._composed(node)

    def _composed(self, node: ast.AST) -> Value | None:
        match node:
            case ast.JoinedStr(values=parts):
                return self._joined([self.folded(part) for part in parts], "")
            case ast.List(elts=members) | ast.Tuple(elts=members) | ast.Set(elts=members):
                return _all([self.folded(member) for member in members])
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
                return _added(self.folded(left), self.folded(right), isinstance(op, ast.Div))
            case ast.GeneratorExp(elt=each, generators=[loop]):
                return self._spelled(each, loop)
            case ast.ListComp(elt=each, generators=[loop]):
                return self._spelled(each, loop)
        return None

    def _part(self, node: ast.Subscript) -> Value | None:
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
        """`chr(c) for c in (111, 115)`."""
        codes = self.folded(loop.iter)
        if isinstance(each, ast.Call) and self.dotted(each.func) == "chr" and codes is not None:
            return _characters(codes)
        return None

    def _called(self, node: ast.Call) -> Value | None:
        name, values = self.dotted(node.func), [self.folded(each) for each in node.args]
        first = values[0] if values else None
        if name in ("pathlib.Path.home", "Path.home"):
            return "~"
        if name in _JOINS or (name == "Path" and values):
            return self._joined(values, "/") if values else None
        if name in _FIRST:
            return _characters(first) if isinstance(first, tuple) else first
        if name == "chr" or (name == "map" and len(values) > 1):
            return _characters(first if name == "chr" else values[1])
        if name in ("os.getenv", "os.environ.get") and first == "HOME":
            return "~"
        if name in DECODERS:
            return _decoded(name, values)
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
        return owner if method in _PASS_ON else None

    def _joined(self, parts: list[Value | None], between: str) -> str | None:
        if not all(isinstance(part, (str, int)) for part in parts):
            return None
        texts = list(map(str, parts))
        return between.join(texts) if sum(map(len, texts)) <= LONGEST else None


def _literal(value: object) -> Value | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def _all(values: list[Value | None]) -> tuple[Value, ...] | None:
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def _added(left: Value | None, right: Value | None, path: bool) -> Value | None:
    if isinstance(left, str) and isinstance(right, str):
        return f"{left}/{right}" if path else left + right
    if path and left is None and isinstance(right, str):
        return f"?/{right}"
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    return None


def _characters(codes: Value | None) -> Value | None:
    if isinstance(codes, int):
        codes = (codes,)
    if not isinstance(codes, tuple):
        return codes
    good = [code for code in codes if isinstance(code, int) and 0 <= code < 0x110000]
    return "".join(map(chr, good)) if len(good) == len(codes) else None


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def _unbase64(text: str) -> bytes:
    return base64.b64decode(re.sub(r"\s", "", text) + "==", altchars=b"-_" if "-" in text else None)


DECODERS: Final[dict[str, Callable[[str], bytes] | None]] = {
    "base64.b64decode": _unbase64,
    "base64.urlsafe_b64decode": _unbase64,
    "base64.decodebytes": _unbase64,
    "base64.b32decode": base64.b32decode,
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "binascii.unhexlify": _unhex,
    "binascii.a2b_base64": _unbase64,
    "bytes.fromhex": _unhex,
    "codecs.decode": None,
}


def _decoded(name: str, values: list[Value | None]) -> str | None:
    text = values[0] if values else None
    if not isinstance(text, str):
        return None
    decode = DECODERS[name]
    if decode is None:
        kind = str(values[1]) if len(values) > 1 else ""
        if kind in _ROT13:
            return codecs.decode(text, "rot13")
        decode = _unhex if kind == "hex" else _unbase64 if kind == "base64" else None
    with contextlib.suppress(ValueError, binascii.Error):
        return decode(text).decode("latin-1") if decode else None
    return None
