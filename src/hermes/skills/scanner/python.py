"""Analyse Python scripts as syntax trees. Nothing is run."""

import ast
import re
import shlex
import warnings
from collections.abc import Iterator
from typing import Final

from hermes.security.danger.files import VITAL
from hermes.skills.scanner import python_dataflow as flow
from hermes.skills.scanner.python_dataflow import DataFlow, Labels
from hermes.skills.scanner.rules import RULES, TABLES, RuleHit, table_pattern, word_list
from hermes.skills.scanner.shell import analyze_shell, dangerous_hits
from hermes.skills.scanner.signatures import (
    COLLECTOR,
    HERMES_FILE,
    HOST,
    LOCAL,
    MESSENGER,
    MINER,
    STARTUP,
)

_RUNNERS, _LOADERS = word_list("python_runners"), word_list("python_loaders")
_SHELLS, _PROGRAMS = word_list("python_shells"), word_list("python_programs")
_SEND = table_pattern("python_send")
_SEND_LOOSELY = re.compile(r"\?\.(?:post|put|sendall|sendto|sendmail|send_message|urlopen)\Z")
"""Methods of unknown objects, in a script that uses the network."""
_LOGIN_KEYWORDS: Final = frozenset({"headers", "auth", "cert", "cookies", "verify", "timeout"})
_LOGIN_HEADER = re.compile(r"authorization|api-?key|token|content-type", re.IGNORECASE)
_DELETES: Final = frozenset(
    {"shutil.rmtree", "os.remove", "os.unlink", "os.rmdir", "os.removedirs"}
)
_WRITE_METHODS: Final = frozenset({"write_text", "write_bytes", "symlink_to", "touch"})
_COPIERS: Final = frozenset(
    {"shutil.copy", "shutil.copyfile", "shutil.move", "os.rename", "os.replace"}
)
_DANGEROUS_NAMES = word_list("python_dangerous_names")
_MACHINE_CODE = word_list("machine_code")
_MODULES: Final = frozenset({"os", "subprocess", "socket", "pty", "ctypes", "base64", "builtins"})
_PRIVATE: Final = frozenset({flow.SECRET, flow.ENVIRONMENT, flow.TYPED})
_OWN_ABOVE = table_pattern("python_own_above")
_MIN_SCRIPT_CHARS: Final = 15
_MAX_NODES: Final = 120_000
_MAX_DEPTH: Final = 2


def analyze_python(text: str, depth: int = 0) -> list[RuleHit] | None:
    """Return what a script would do; None when it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the scanned code
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):  # raised for excessive nesting
        return [RuleHit(RULES["unreadable"])]
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        return [RuleHit(RULES["unreadable"])]
    study = PythonAnalysis(DataFlow(tree), depth)
    hits = dict.fromkeys(
        RuleHit(RULES[name], _line_number(call))
        for call in study.flow.calls()
        for name in study.call_rules(call)
    )
    return [*hits, *study.script_hits()]


class PythonAnalysis:
    """The analysis of one script."""

    def __init__(self, found: DataFlow, depth: int) -> None:
        self.flow, self._depth = found, depth
        self._values = found.values
        self._call_value = {found.values.dotted(call.func) for call in found.calls()}
        self._online = any(map(found.is_network, self._call_value))

    def script_hits(self) -> Iterator[RuleHit]:
        """Yield hits that depend on the whole script."""
        connects = any(name.endswith(".connect") and "socket" in name for name in self._call_value)
        for node in self.flow.nodes:
            value = self._values.folded(node)
            if isinstance(value, str) and "stratum+" in value and MINER.search(value):
                yield RuleHit(RULES["py_mines"], _line_number(node))
                break
        if connects and {"os.dup2", "pty.spawn"} & self._call_value:
            starts = (
                _line_number(call)
                for call in self.flow.calls()
                if self._values.dotted(call.func) in ("os.dup2", "pty.spawn")
            )
            yield RuleHit(RULES["py_network_shell"], min(starts))
        secret = [n for n in self.flow.nodes if flow.SECRET in self.flow.labels(n)]
        if secret:
            name = "py_reads_and_sends" if self._online else "py_reads_keys"
            yield RuleHit(RULES[name], _line_number(secret[-1]))

    def call_rules(self, call: ast.Call) -> Iterator[str]:
        name = self._values.dotted(call.func)
        yield from self._hidden_name_rules(call, name)
        yield from self._written_command_rules(call)
        if name.rpartition(".")[2] in _MACHINE_CODE:
            yield "py_machine_code"
        if name in _RUNNERS or name in _LOADERS:
            yield from self._runs(call, name)
        elif name in _SHELLS or name in _PROGRAMS:
            yield from self._commands(call, name)
        elif (self.flow.is_network(name) and _SEND.search(name)) or (
            self._online and _SEND_LOOSELY.search(name)
        ):
            yield from self._sends(call)
        elif name in _DELETES or name.endswith(".unlink"):
            yield from self._deletes(call, name)
        else:
            yield from self._writes(call, name)

    def _hidden_name_rules(self, call: ast.Call, name: str) -> Iterator[str]:
        """A function or module whose name is assembled at run time."""
        hidden = [arg for arg in call.args if not isinstance(arg, ast.Constant)]
        texts = {self._values.text(arg) for arg in hidden}
        wanted = call.args[1:2] if name == "getattr" else []
        if any(arg in hidden and self._values.text(arg) in _DANGEROUS_NAMES for arg in wanted) or (
            name in ("__import__", "importlib.import_module") and texts & _MODULES
        ):
            yield "py_hidden_name"

    def _written_command_rules(self, call: ast.Call) -> Iterator[str]:
        """Commands written into a file that runs at login."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("write", "write_text"):
            text = self._values.text(call.args[0]) if call.args else ""
            startup = flow.STARTUP in self.flow.labels(call.func.value)
            if len(text) > _MIN_SCRIPT_CHARS and (dangerous_hits(text) or self._is_dangerous(text)):
                yield "py_bad_startup" if startup else "py_writes_attack"

    def _runs(self, call: ast.Call, name: str) -> Iterator[str]:
        labels = self.flow.labels(*call.args)
        loads = name in _LOADERS
        if flow.NETWORK in labels:
            yield "py_remote_data" if loads else "py_remote_code"
        if loads:
            return
        text = self._values.text(call.args[0]) if call.args else ""
        literal = bool(call.args) and isinstance(call.args[0], ast.Constant)
        if flow.DECODED in labels or (text and not literal and self._is_dangerous(text)):
            yield "py_decoded_code"
        if flow.REQUEST in labels:
            yield "py_requested"
        elif flow.INPUT in labels and name in ("exec", "eval"):
            yield "py_evaluates"
        if literal and text and self._depth < _MAX_DEPTH:
            for hit in analyze_python(text, self._depth + 1) or ():
                yield hit.rule.id

    def _is_dangerous(self, text: str) -> bool:
        if self._depth >= _MAX_DEPTH:
            return False
        return bool(analyze_python(text, self._depth + 1)) or bool(dangerous_hits(text))

    def _commands(self, call: ast.Call, name: str) -> Iterator[str]:
        if not call.args:
            return
        given = call.args[0]
        command = self._command(call, name)
        bad = False
        for hit in analyze_shell(command, depth=1) if command else ():
            bad = bad or hit.rule.severity in ("high", "critical")
            yield hit.rule.id
        if bad and _is_concatenated(given) and self._values.folded(given) is not None:
            yield "py_pieced_command"
        shell = _keyword(call, "shell")
        if name in _PROGRAMS and not (isinstance(shell, ast.Constant) and shell.value):
            return
        labels = self.flow.labels(given)
        whole = not isinstance(given, (ast.JoinedStr, ast.BinOp, ast.Constant))
        if flow.REQUEST in labels:
            yield "py_requested"
        elif flow.NETWORK in labels and not self._values.text(given):
            yield "py_commanded" if whole else "py_interpolates"

    def _command(self, call: ast.Call, name: str) -> str:
        """Return the command line, with `$x` for unknown parts."""
        if name.startswith(("os.exec", "os.spawn", "asyncio.create_subprocess_exec")):
            return " ".join(self._words(call.args))
        value = self._values.folded(call.args[0])
        if isinstance(value, str):
            return value
        if isinstance(value, tuple):
            return shlex.join(map(str, value))
        match call.args[0]:
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return " ".join(self._words(members))
            case ast.JoinedStr(values=parts):
                return "".join(self._values.text(part) or "$x" for part in parts)
            case ast.BinOp(left=left, right=right):
                return f"{self._values.text(left) or '$x'}{self._values.text(right) or '$x'}"
        return ""

    def _words(self, members: list[ast.expr]) -> Iterator[str]:
        for member in members:
            text = self._values.text(member)
            yield shlex.quote(text) if text else '"$x"'

    def _sends(self, call: ast.Call) -> Iterator[str]:
        given = [("", each) for each in call.args] + [(k.arg or "", k.value) for k in call.keywords]
        head = [value for name, value in given if name in _LOGIN_KEYWORDS or self._logs_in(value)]
        sent = self.flow.labels(*(value for _, value in given if value not in head))
        if sent & _PRIVATE:
            yield "py_sends"
        elif flow.SCREEN in sent:
            yield "py_sends_screen"
        elif flow.FILES in sent:
            yield "py_sends_files"
        elif flow.ENV_FILE in sent:
            yield "py_sends_env"
        elif flow.MACHINE in sent:
            yield "py_sends_machine"
        address = next((text for text in map(self._start, call.args) if HOST.search(text)), "")
        hosts = [host.lower() for host in HOST.findall(address) if not LOCAL.match(host)]
        keys = _key_names(sent)
        if keys and COLLECTOR.search(address):
            yield "py_sends_key"
        keys |= _key_names(self.flow.labels(*head))
        vendors = [TABLES.vendors.get(key.partition("_")[0]) for key in keys]
        if hosts and any(v and not any(v in host for host in hosts) for v in vendors):
            yield "py_sends_key" if MESSENGER.search(address) else "py_foreign_key"

    def _logs_in(self, node: ast.expr) -> bool:
        """Whether a positional argument is a dict of login headers."""
        keys = node.keys if isinstance(node, ast.Dict) else []
        return any(key and _LOGIN_HEADER.search(self._values.text(key)) for key in keys)

    def _start(self, node: ast.expr) -> str:
        """Return the text of a node, or its constant beginning."""
        text = self._values.text(node)
        if text or not isinstance(node, (ast.JoinedStr, ast.BinOp)):
            return text
        first = node.values[0] if isinstance(node, ast.JoinedStr) else node.left
        return self._values.text(first)

    def _deletes(self, call: ast.Call, name: str) -> Iterator[str]:
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        target = call.args[:1] or owner
        named = [self._values.text(node).rstrip("/") or "" for node in target]
        everything = name == "shutil.rmtree"
        if everything and any(text and (text in VITAL or text == "~") for text in named):
            yield "py_deletes_all"
        elif flow.HOME in self.flow.labels(*target) and not any(named):
            encrypts = any("Fernet" in each or ".encrypt" in each for each in self._call_value)
            yield "py_deletes_all" if everything or encrypts else "py_deletes_many"

    def _writes(self, call: ast.Call, name: str) -> Iterator[str]:
        if name in ("open", "io.open", "codecs.open"):
            mode = self._values.text(call.args[1]) if len(call.args) > 1 else ""
            mode = mode or self._values.text(_keyword(call, "mode"))
            path = self._values.text(call.args[0]) if call.args and set(mode) & set("wax+") else ""
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "open":
            mode = self._values.text(call.args[0]) if call.args else ""
            path = self._values.text(call.func.value) if set(mode) & set("wax+") else ""
        elif name in _COPIERS and len(call.args) > 1:
            path = self._values.text(call.args[1])
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _WRITE_METHODS:
            path = self._values.text(call.func.value)
        else:
            return
        if HERMES_FILE.search(path) or _OWN_ABOVE.search(path):
            yield "py_own"
        elif STARTUP.search(path):
            yield "py_startup"
        elif path.endswith("/authorized_keys") or path.startswith("/etc/sudoers"):
            yield "py_lets_in"
        if path.startswith("__file__") and path.count("..") > 2:
            yield "py_leaves"


def _line_number(node: ast.AST) -> int:
    number: int = getattr(node, "lineno", 1)
    return number - 1


def _key_names(labels: Labels) -> set[str]:
    return {label.removeprefix(flow.KEY) for label in labels if label.startswith(flow.KEY)}


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _is_concatenated(node: ast.expr) -> bool:
    """Whether a text is assembled from parts; joining words with spaces does not count."""
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "format"))
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
