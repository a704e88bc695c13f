"""Python given as text: the commands that have the same effect."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final

from hermes.security.danger.inline import (
    LOCAL_HOST,
    NAME,
    REMOTE_DATABASE,
    TEMPORARY,
    CodeEffects,
    changes,
    code_tables,
    loses,
    python_words,
    reveals,
)
from hermes.security.danger.python_values import MAX_VALUES, OPENERS, PythonValues
from hermes.security.danger.secrets import SECRET_HINT, SECRET_NAME
from hermes.security.danger.system import lost_by
from hermes.security.shell.model import UNKNOWN

MAX_NODES: Final = 12_000
_ENCODING = re.compile(r"\A(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_ENCODINGS: Final = frozenset({"utf-8", "utf8", "ascii", "latin-1", "iso-8859-1"})

# Functions by what they do

_DELETES, _TREES = python_words("deletes"), python_words("trees")
_TEXT_RUNNERS, _WORD_RUNNERS = python_words("text_runners"), python_words("word_runners")
_EVALUATORS, _LOADERS = python_words("evaluators"), python_words("loaders")
_NATIVE, _SERVICE_DELETES = python_words("native"), python_words("service_deletes")
_FRAMES, _SENSITIVE, _SHOWS = (
    python_words("frames"),
    python_words("sensitive"),
    python_words("shows"),
)
_DANGERS, _COPIES = code_tables()["python_dangers"], code_tables()["python_copies"]
_FETCHES = re.compile(
    r"(?:requests|httpx|urllib3?|urllib2|aiohttp|http\.client|wget)(?:\.\w+|\(\))*\."
    r"(?P<verb>get|head|options|post|put|patch|delete|request|urlopen|urlretrieve|stream|Request"
    r"|download|HTTPConnection|HTTPSConnection)"
)
_SAVES = re.compile(
    r"to_(?:csv|json|parquet|excel|pickle|html|markdown|feather)|savefig|savetxt|savez?"
)
_WIPES = re.compile(
    r"(?:\A|[._])(?:wipe|purge|nuke|destroy_all|delete_all|drop_tables|erase_all|reset_db"
    r"|factory_reset)"
)
"""Functions of the project that delete by their name."""
_CLOUD_DELETES = re.compile(
    r"(batch_)?(delete|terminate|destroy|purge|drop|stop|remove|deregister)_\w"
)
_SERVICES, _DATABASES = python_words("services"), python_words("databases")
_INTRUSIVE = python_words("intrusive")
_MOCK = re.compile(r"(?:unittest\.)?mock\.(?:(?:Magic|Async|NonCallable)?Mock|patch)\(\)\.")
_COMMAND_LIKE = re.compile(r"[a-z][\w./-]*\s+\S")

_FILE_SERVERS: Final = ("http.server.HTTPServer", "http.server.ThreadingHTTPServer",
                         "socketserver.TCPServer", "socketserver.ThreadingTCPServer")  # fmt: skip

_HIDDEN_NAMES: Final = _FRAMES - {"__import__", "__self__"} | {"__builtins__"}

Handler = Callable[["PythonReader", ast.Call, str], None]


def read_python(text: str, effects: CodeEffects) -> None:
    """Add the effects of a script to `effects`."""
    cookie = _ENCODING.match(text)
    if cookie and cookie[1].lower().replace("_", "-") not in _PLAIN_ENCODINGS:
        effects.hide("the code has an unusual encoding")
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the code
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        effects.hide("the code cannot be parsed")
        return
    try:
        PythonReader(tree, effects).read()
    except RecursionError:
        effects.hide("the code is nested too deeply")


class PythonReader:
    """Reads one script: the calls that have an effect, and the functions that are passed on."""

    def __init__(self, tree: ast.Module, effects: CodeEffects, depth: int = 0) -> None:
        self.effects, self.nesting = effects, depth
        self.names = PythonValues(tree, effects.invocation, _is_risky)
        self.parents, self.nodes = self.names.parents, self.names.nodes
        self.dotted, self.value = self.names.dotted, self.names.value
        self.words = self.names.words

    def choices(self, node: ast.expr) -> list[list[str]]:
        """Return the lists of texts that an expression may give."""
        found = [self.words(node, choice=number) for number in range(MAX_VALUES)]
        return [list(each) for each in dict.fromkeys(tuple(words) for words in found if words)]

    def read(self) -> None:
        if len(self.nodes) > MAX_NODES:
            self.effects.hide("the code is too long to be read")
            return
        calls = {node: self.dotted(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.effects.online = any(map(_FETCHES.match, calls.values()))
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self._read_call(node, calls[node])
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self._read_reference(node)
            elif isinstance(node, ast.Constant) and node.value in _HIDDEN_NAMES:
                self.effects.hide(f"the code reaches functions through {node.value}")
        self._check_sockets(set(calls.values()))

    def _check_sockets(self, names: set[str]) -> None:
        connects = any(name.startswith("socket.") or ".connect" in name for name in names)
        socket = any("socket" in name for name in (*names, *self.names.imports.values()))
        starts = names & {"os.dup2", "pty.spawn", "os.dup"} or any(
            name in _WORD_RUNNERS or name in _TEXT_RUNNERS for name in names
        )
        if socket and connects and starts:
            self.effects.danger("the code connects a shell to the network", "network shell")

    # References: functions and modules that are passed on instead of called

    def _read_reference(self, node: ast.Name | ast.Attribute) -> None:
        parent = self.parents.get(node)
        if isinstance(node, ast.Attribute) and node.attr in _FRAMES:
            if not isinstance(parent, ast.Attribute) or parent.attr not in ("__name__", "co_name"):
                self.effects.hide(f"the code reaches functions through {node.attr}")
            return
        if isinstance(node, ast.Name):
            if node.id == "__builtins__":
                self.effects.hide("the code reaches functions through __builtins__")
                return
            risky = node.id in self.names.imports or node.id in _EVALUATORS
        else:
            risky = node.attr in _LAST_NAMES or node.attr in ("modules", "__dict__", "cdll")
        if risky and not self._is_used_directly(node, parent):
            self.check_passed(node, self.dotted(node))

    def _is_used_directly(self, node: ast.expr, parent: ast.AST | None) -> bool:
        if isinstance(parent, ast.Call):
            return parent.func is node or self.dotted(parent.func) in _SHOWS
        if isinstance(parent, ast.Assign):
            names = [each.id for each in parent.targets if isinstance(each, ast.Name)]
            inside = isinstance(self.parents.get(parent), ast.ClassDef)
            return len(names) == len(parent.targets) and not inside
        return isinstance(parent, (ast.Attribute, ast.Expr, ast.Compare))

    def check_passed(self, node: ast.expr, name: str) -> None:
        if name in _DELETES or name in _TREES:
            self.effects.danger("the code deletes files")
        elif name in _TEXT_RUNNERS or name in _WORD_RUNNERS:
            self.effects.hide("the code starts a program that is known only when it runs")
        elif name in _EVALUATORS or name in _LOADERS:
            self.effects.hide("the code runs other code that is known only when it runs")
        elif name in _SENSITIVE or name.endswith(".__dict__"):
            parent = self.parents.get(node)
            if name != "sys.modules" or not isinstance(parent, ast.Subscript):
                self.effects.hide("the code hides which functions it uses")

    # Calls

    def _read_call(self, call: ast.Call, name: str) -> None:
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, call, name)
            return
        if name in ("?", "?()") or name.endswith(f".{UNKNOWN}"):
            self._check_hidden(call, name)
        elif name in _DANGERS:
            self.effects.danger(_DANGERS[name])
        elif name in _NATIVE:
            self.effects.danger("the code calls machine code")
        elif name in _LOADERS:
            self.effects.hide("the code runs other code that is known only when it runs")
        elif _WIPES.search(name) and not _MOCK.match(name) and not self._is_patched(name):
            self.effects.danger("the code deletes data")
        else:
            self._read_library(call, name)
        if isinstance(call.func, ast.Attribute):
            self._read_method(call, call.func, name)

    def _read_library(self, call: ast.Call, name: str) -> None:
        """Functions of packages that start programs or talk to other machines."""
        if found := _FETCHES.match(name):
            _fetch(self, call, found["verb"])
        elif name.startswith(("sh.", "plumbum.cmd.")) and "()" not in name:
            words = (self.value(each)[0] for each in call.args)
            self.effects.run_words([name.rpartition(".")[2], *words])
        elif name.startswith("git.Repo()"):
            _git(self, call, name.rpartition(".")[2])
        elif name.startswith(_FILE_SERVERS):
            self._serve(call)
        elif name.partition(".")[0] in _INTRUSIVE:
            self.effects.danger("the code watches or controls others", "host access")
        elif changes(name) and self._is_service(name):
            self.effects.danger("the code changes what a service holds", "infrastructure")
        elif reveals(name) and self._is_service(name):
            self.effects.danger("the code reads keys that a service holds", "credential access")

    def _is_patched(self, name: str) -> bool:
        """`with mock.patch("app.files.shutil.rmtree"): app.files.purge()`."""
        patches = [
            self.value(node.args[0])[0]
            for node in self.nodes
            if isinstance(node, ast.Call)
            and node.args
            and self.dotted(node.func).endswith("mock.patch")
        ]
        return any(each.startswith(f"{name.rpartition('.')[0]}.") for each in patches)

    def _uses_services(self) -> bool:
        return any(name.partition(".")[0] in _SERVICES for name in self.names.imports.values())

    def _is_service(self, name: str) -> bool:
        """Return whether a function belongs to the client of a service that is not on this machine,
        or deletes in a database."""
        module = name.partition(".")[0]
        if module in _SERVICES:
            return not any(LOCAL_HOST.search(text) for text in self._given_to(_SERVICES))
        return module in _DATABASES and loses(name) and self.is_remote()

    def is_remote(self) -> bool:
        """Return whether the code names a database of another machine."""
        return any(REMOTE_DATABASE.search(text) for text in self._given_to(_DATABASES))

    def _given_to(self, modules: frozenset[str]) -> Iterator[str]:
        """Yield the texts that functions of these modules are given."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and self.dotted(node.func).partition(".")[0] in modules:
                for given in (*node.args, *(each.value for each in node.keywords)):
                    yield from self.value(given)

    def _serve(self, call: ast.Call) -> None:
        place = call.args[0] if call.args else None
        if isinstance(place, ast.Tuple) and place.elts:
            self.effects.serve(self.value(place.elts[0])[0])
            self.effects.run("http.server")

    def _check_hidden(self, call: ast.Call, name: str) -> None:
        """A function that is chosen when the code runs."""
        match call.func:
            case ast.Call(func=function):
                inner = self.dotted(function)
                if inner == "getattr" or inner in _LOADERS:
                    self.effects.hide("the code hides which functions it uses")
            case ast.Subscript(value=owner):
                base = self.dotted(owner)
                if base in ("globals()", "locals()", "vars()") or base.endswith("__dict__"):
                    self.effects.hide("the code hides which functions it uses")
        if name.endswith(UNKNOWN):
            self.effects.hide("the code hides which functions it uses")

    def _read_method(self, call: ast.Call, function: ast.Attribute, name: str) -> None:
        method = function.attr
        handler = _METHODS.get(method)
        if handler is not None:
            handler(self, call, name)
        elif method in _SERVICE_DELETES and not name.startswith("''"):
            self.effects.danger("the code deletes data of a service", "destructive SQL")
        elif method in ("delete", "drop") and re.search(
            r"\bobjects\b|\bquery\b|\A(?:pymongo|motor)\.|\.indices\b", name
        ):
            self.effects.danger("the code deletes rows of a database", "destructive SQL")
        elif _CLOUD_DELETES.match(method) and self._uses_services():
            self.effects.danger("the code deletes what a service holds", "infrastructure")
        elif method in ("kill", "terminate") and "psutil" in self.names.imports.values():
            self.effects.danger("the code ends processes")
        elif _SAVES.fullmatch(method) and call.args:
            _write_all(self, self.value(call.args[0]))
        elif method in ("run", "sudo", "exec_command", "send_command") and call.args:
            text = self.value(call.args[0])[0]
            if isinstance(call.args[0], ast.Constant) and _COMMAND_LIKE.match(text):
                self.effects.run_text(text)


# What a call does


def _write_all(reader: PythonReader, paths: Sequence[str], text: str | None = None) -> None:
    for path in paths:
        if path != UNKNOWN or text is not None:
            reader.effects.write(path, text)


def _delete(reader: PythonReader, call: ast.Call, name: str) -> None:
    target = call.args[0] if call.args else _keyword(call, "path")
    for path in reader.value(target) if target is not None else (UNKNOWN,):
        reader.effects.delete(path, tree=name in _TREES)


def _unlink(reader: PythonReader, call: ast.Call, name: str) -> None:
    if isinstance(call.func, ast.Attribute) and name not in _HANDLERS:
        for path in reader.value(call.args[0] if call.args else call.func.value):
            reader.effects.delete(path, tree=call.func.attr != "unlink")


def _run_text(reader: PythonReader, call: ast.Call, name: str) -> None:
    target = call.args[0] if call.args else _keyword(call, "cmd", "command")
    if target is None and name == "platform.system":
        return
    for text in reader.value(target) if target is not None else (UNKNOWN,):
        reader.effects.run_text(text)


def _run_words(reader: PythonReader, call: ast.Call, name: str) -> None:
    given = call.args or [each.value for each in call.keywords if each.arg == "args"]
    if not given:
        return
    if name.startswith("pip."):
        reader.effects.run_words(["pip", *(reader.words(given[0]) or [UNKNOWN])])
    elif name.startswith(("os.execl", "os.spawnl", "asyncio.")):
        skip = 1 if name.startswith("os.spawnl") else 0
        named = [reader.value(each)[0] for each in given[skip:]]
        arguments = named[1:] if name.startswith("asyncio.") else named[2:]
        reader.effects.run_words([*named[:1], *arguments])
    elif name.startswith(("os.execv", "os.spawnv", "os.posix_spawn", "posix.", "_posix")):
        given = given[1:] if name.startswith("os.spawnv") else given
        words = reader.words(given[1]) if len(given) > 1 else None
        reader.effects.run_words([reader.value(given[0])[0], *(words or [UNKNOWN])[1:]])
    else:
        _run_process(reader, call, given[0])


def _run_process(reader: PythonReader, call: ast.Call, command: ast.expr) -> None:
    shell = _keyword(call, "shell")
    in_shell = shell is not None and not (isinstance(shell, ast.Constant) and not shell.value)
    if reader.words(command) is None:
        for text in reader.value(command):
            reader.effects.run_text(text) if in_shell else reader.effects.run_words([text])
        return
    given = _keyword(call, "input")
    for words in reader.choices(command):
        if in_shell and words:
            reader.effects.run_text(words[0])
        reader.effects.run_words(words)
        if given is not None and words:
            _pass_input(reader, words, reader.value(given)[0])


def _pass_input(reader: PythonReader, words: list[str], text: str) -> None:
    """`subprocess.run(["sh"], input=…)`."""
    reader.effects.run("sh", "-c", " ".join(words) + f" <<'⏎END'\n{text}\n⏎END")


def _call_command(reader: PythonReader, call: ast.Call, _name: str) -> None:
    """`call_command("flush")` of Django."""
    reader.effects.run("manage.py", *(reader.value(each)[0] for each in call.args))


def _evaluate(reader: PythonReader, call: ast.Call, name: str) -> None:
    for position, argument in enumerate((*call.args[:2], *(each.value for each in call.keywords))):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            _read_nested(reader, argument.value)
            continue
        timed = name not in ("exec", "eval") and isinstance(argument, (ast.Lambda, ast.Name))
        if not position and not timed:
            reader.effects.hide("the code runs other code that is known only when it runs")


def _read_nested(reader: PythonReader, text: str) -> None:
    if reader.nesting > 2:
        reader.effects.hide("the code is nested too deeply")
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        reader.effects.hide("the code cannot be parsed")
        return
    inner = PythonReader(tree, reader.effects, reader.nesting + 1)
    inner.names.imports |= {**reader.names.imports, **inner.names.imports}
    inner.read()


def _open(reader: PythonReader, call: ast.Call, name: str) -> None:
    mode = _mode(reader, call, 1)
    flags = ast.unparse(call.args[1]) if name == "os.open" and len(call.args) > 1 else ""
    writes = set(mode) & set("wax+") or re.search(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|APP)", flags)
    target = call.args[0] if call.args else _keyword(call, "file", "name")
    _touch(reader, reader.value(target) if target is not None else (), call, bool(writes), mode)


def _open_path(reader: PythonReader, call: ast.Call, name: str) -> None:
    """`Path(…).open("w")`."""
    if isinstance(call.func, ast.Attribute) and name not in OPENERS:
        mode = _mode(reader, call, 0)
        if re.fullmatch(r"[rwaxbt+]{1,3}", mode):
            paths = reader.value(call.func.value)
            _touch(reader, paths, call, bool(set(mode) & set("wax+")), mode)


def _mode(reader: PythonReader, call: ast.Call, position: int) -> str:
    node = call.args[position] if len(call.args) > position else _keyword(call, "mode")
    if node is None:
        return "r"
    text = reader.value(node)[0]
    return "w" if UNKNOWN in text else text


def _touch(
    reader: PythonReader, paths: Sequence[str], call: ast.Call, writes: bool, mode: str
) -> None:
    for path in paths:
        if not writes:
            reader.effects.read(path)
        else:
            reader.effects.write(path, _text_written(reader, call), append="a" in mode)


def _text_written(reader: PythonReader, call: ast.Call) -> str | None:
    """Return what `open(…).write(…)` writes, or `with open(…) as f: f.write(…)`, if known."""
    handle: list[ast.AST] = [call]
    texts = []
    for name, bound in reader.names.bound.items():
        if call in bound:
            handle += [node for node in reader.nodes if isinstance(node, ast.Name)
                       and node.id == name]  # fmt: skip
    for each in handle:
        method = reader.parents.get(each)
        outer = reader.parents.get(method) if isinstance(method, ast.Attribute) else None
        if isinstance(outer, ast.Call) and outer.args and method is outer.func:
            texts.append(reader.value(outer.args[0])[0])
    text = "".join(texts)
    return text if text and UNKNOWN not in text else None


def _write_method(reader: PythonReader, call: ast.Call, _name: str) -> None:
    if isinstance(call.func, ast.Attribute):
        text = reader.value(call.args[0])[0] if call.args else None
        known = text if text is not None and UNKNOWN not in text else None
        for path in reader.value(call.func.value):
            reader.effects.write(path, known)


def _read_path(reader: PythonReader, call: ast.Call, _name: str) -> None:
    if isinstance(call.func, ast.Attribute):
        for path in reader.value(call.func.value):
            reader.effects.read(path)


def _copy(reader: PythonReader, call: ast.Call, name: str) -> None:
    if len(call.args) < 2:
        return
    program = _COPIES[name]
    for source, target in product(reader.value(call.args[0]), reader.value(call.args[1])):
        options = ("-s",) if name == "os.symlink" else ()
        reader.effects.run(program, *options, source, target)
        if UNKNOWN not in target[:1]:
            reader.effects.check_outside(target)


def _truncate(reader: PythonReader, call: ast.Call, _name: str) -> None:
    for path in reader.value(call.args[0]) if call.args else ():
        reader.effects.write(path)


def _run_file(reader: PythonReader, call: ast.Call, _name: str) -> None:
    for path in reader.value(call.args[0]) if call.args else ():
        reader.effects.run_words(["python3", path])


def _change_folder(reader: PythonReader, call: ast.Call, _name: str) -> None:
    for path in reader.value(call.args[0])[:1] if call.args else ():
        reader.effects.change_folder(path)


def _change_mode(reader: PythonReader, call: ast.Call, name: str) -> None:
    if name.endswith("chown"):
        reader.effects.danger("the code changes owners")
        return
    mode = call.args[-1] if call.args else None
    value = mode.value if isinstance(mode, ast.Constant) else None
    number = f"{value:o}" if isinstance(value, int) else "644"
    if mode is not None and re.search(r"S_IRWXO|S_IWOTH", ast.unparse(mode)):
        number = "777"
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    target = call.args[0] if len(call.args) > 1 else owner
    for path in reader.value(target) if target is not None else ():
        reader.effects.run("chmod", number, path)


def _kill(reader: PythonReader, call: ast.Call, _name: str) -> None:
    given = [reader.value(each)[0] for each in call.args]
    signal = given[1] if len(given) > 1 and given[1].isdigit() else "9"
    negative = call.args and isinstance(call.args[0], ast.UnaryOp)
    if signal != "0":
        reader.effects.run("kill", f"-{signal}", "-1" if negative else given[0])
        reader.effects.danger("the code ends processes")


def _fetch(reader: PythonReader, call: ast.Call, verb: str) -> None:
    given = [reader.value(each)[0] for each in call.args]
    if verb in ("urlretrieve", "download"):
        target = given[1] if len(given) > 1 else NAME
        reader.effects.fetch("-o", target, *given[:1])
        return
    if verb in ("request", "stream", "Request") and given and "/" not in given[0]:
        verb, given = given[0].lower(), given[1:]
    method = _keyword(call, "method")
    verb = reader.value(method)[0].lower() if method is not None else verb
    sent = [
        each.value
        for each in call.keywords
        if each.arg in ("data", "json", "files", "content", "body")
    ]
    sent += call.args[1:2] if verb in ("post", "put", "patch", "urlopen", "Request") else []
    options = ["-X", "DELETE"] if verb == "delete" else []
    for node in sent:
        options += ["-d", *(f"@{path}" for path in _files_in(reader, node))][:2]
    address = call.args[len(call.args) - len(given)] if given else _keyword(call, "url")
    url = reader.value(address)[0] if address is not None else UNKNOWN
    if sent or verb in ("post", "put", "patch", "delete") or _has_data(reader, address):
        reader.effects.send(url, *options)
    else:
        reader.effects.fetch(*options, url)


def _has_data(reader: PythonReader, node: ast.expr | None) -> bool:
    """Return whether an address contains the text of a file or something encoded."""
    names = (
        (reader.dotted(each.func) for each in ast.walk(node) if isinstance(each, ast.Call))
        if (node)
        else ()
    )
    return any(n in OPENERS or n.endswith((".read_text", ".b64encode", ".hexlify")) for n in names)


def _files_in(reader: PythonReader, node: ast.expr) -> Iterator[str]:
    """Yield the files whose content an expression contains; its text if there are none."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and reader.dotted(each.func) in OPENERS and each.args:
            yield reader.value(each.args[0])[0]
        elif isinstance(each, ast.Attribute) and each.attr in ("read_text", "read_bytes"):
            yield reader.value(each.value)[0]


def _send(reader: PythonReader, call: ast.Call, _name: str) -> None:
    """Data over a socket; a request that is written out is like one of curl."""
    sockets = "socket" in reader.names.imports.values()
    if sockets and call.args and UNKNOWN in reader.value(call.args[0])[0]:
        reader.effects.danger("the code sends data over the network")


def _query(reader: PythonReader, call: ast.Call, _name: str) -> None:
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Call) and given.args:
        given = given.args[0]  # `text("…")` of SQLAlchemy
    for text in reader.value(given) if given is not None else ():
        if lost_by(text) and not _is_in_memory(reader):
            reader.effects.run("sqlite3", "database", text)
        elif _CHANGES_ROWS.match(text) and reader.is_remote():
            reader.effects.danger(
                "the code changes a database of another machine", "destructive SQL"
            )


def _is_in_memory(reader: PythonReader) -> bool:
    """Return whether every database that the code opens ends with the process."""
    modules = {name.partition(".")[0] for name in reader.names.imports.values()}
    texts = [node.value for node in reader.nodes if isinstance(node, ast.Constant)]
    if modules & _OTHER_DATABASES or any(_ATTACH.search(t) for t in texts if isinstance(t, str)):
        return False
    calls = [node for node in reader.nodes if isinstance(node, ast.Call)]
    opened = [call for call in calls if _CONNECTS.search(reader.dotted(call.func))]
    places = [reader.value(call.args[0]) if call.args else (UNKNOWN,) for call in opened]
    return bool(places) and all(_MEMORY.fullmatch(text) for texts in places for text in texts)


_CONNECTS = re.compile(r"(?:\A|\.)(?:connect|create_engine|create_async_engine)\Z")
_ATTACH = re.compile(r"\battach\b", re.IGNORECASE)
_OTHER_DATABASES: Final = frozenset({
    "MySQLdb", "asyncpg", "cx_Oracle", "django", "mysql", "oracledb", "peewee", "psycopg",
    "psycopg2", "pymssql", "pymysql", "pyodbc", "snowflake",
})  # fmt: skip
_MEMORY = re.compile(rf":memory:|sqlite(\+\w+)?://(/:memory:)?|(sqlite:///)?{TEMPORARY}.*")
_CHANGES_ROWS = re.compile(
    r"\s*(?:insert|update|delete|merge|replace|alter|create|copy)\s", re.IGNORECASE
)


def _connect(reader: PythonReader, call: ast.Call, _name: str) -> None:
    for path in reader.value(call.args[0]) if call.args else ():
        if path != ":memory:" and UNKNOWN not in path:
            reader.effects.run("sqlite3", path)


def _import(reader: PythonReader, call: ast.Call, _name: str) -> None:
    for module in reader.value(call.args[0]) if call.args else ():
        if module.startswith(UNKNOWN):
            reader.effects.hide("the code imports a module that is known only when it runs")


def _attribute_by_name(reader: PythonReader, call: ast.Call, _name: str) -> None:
    if len(call.args) < 2:
        return
    attribute = reader.value(call.args[1])[0]
    base = reader.dotted(call.args[0])
    parent = reader.parents.get(call)
    called = isinstance(parent, ast.Call) and parent.func is call
    if attribute in _FRAMES or (UNKNOWN in attribute and (called or base in _SENSITIVE)):
        reader.effects.hide("the code hides which functions it uses")
    elif not called and not isinstance(parent, ast.Assign):
        reader.check_passed(call, f"{base}.{attribute}")


def _git(reader: PythonReader, call: ast.Call, verb: str) -> None:
    """`Repo().git.reset("--hard")`, `Repo().remotes.origin.push(force=True)`."""
    words = [word for each in call.args for word in (reader.words(each) or reader.value(each))]
    forced = _keyword(call, "force", "f")
    options = ["--force"] if isinstance(forced, ast.Constant) and forced.value else []
    reader.effects.run("git", verb.replace("_", "-"), *options, *words)


def _selects_secrets(reader: PythonReader, node: ast.AST) -> bool:
    """`[… for k in os.environ if "KEY" in k]`."""
    inside = list(ast.walk(node))
    names = (n for n in inside if isinstance(n, (ast.Attribute, ast.Name)))
    if not any(reader.dotted(name) == "os.environ" for name in names):
        return False
    tests = [test for each in inside if isinstance(each, ast.comprehension) for test in each.ifs]
    texts = [
        each.value for test in tests for each in ast.walk(test) if isinstance(each, ast.Constant)
    ]
    return any(isinstance(text, str) and SECRET_HINT.search(text) for text in texts)


def _print(reader: PythonReader, call: ast.Call, _name: str) -> None:
    """Keys of the environment that are shown."""
    if any(_selects_secrets(reader, argument) for argument in call.args):
        reader.effects.danger("the code shows keys of the environment", "credential access")
    for argument in call.args:
        for node in _shown(argument):
            key: ast.expr | None = None
            if isinstance(node, ast.Subscript) and "environ" in ast.unparse(node.value):
                key = node.slice
            elif isinstance(node, ast.Call) and node.args:
                named = reader.dotted(node.func)
                key = node.args[0] if named in ("os.getenv", "os.environ.get") else None
            if key is not None and SECRET_NAME.search(reader.value(key)[0]):
                reader.effects.run("printenv", reader.value(key)[0])


def _extract(reader: PythonReader, call: ast.Call, _name: str) -> None:
    target = call.args[0] if call.args else _keyword(call, "path")
    for path in reader.value(target) if target is not None else ():
        reader.effects.run("unzip", "-d", path, "archive.zip")
        reader.effects.check_outside(path)


def _make_folder(reader: PythonReader, call: ast.Call, _name: str) -> None:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    target = call.args[0] if call.args and not _is_path_method(call) else owner
    for path in reader.value(target) if target is not None else ():
        if UNKNOWN not in path[:1]:
            reader.effects.run("mkdir", path)


def _is_path_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("mkdir", "touch")


def _shown(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the parts of an argument of `print` whose text is printed."""
    match node:
        case ast.JoinedStr(values=parts):
            for part in parts:
                if isinstance(part, ast.FormattedValue):
                    yield from _shown(part.value)
        case ast.BinOp(left=left, right=right):
            yield from (*_shown(left), *_shown(right))
        case ast.BoolOp(values=values):
            for each in values:
                yield from _shown(each)
        case _:
            yield node


def _keyword(call: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg in names), None)


def _is_risky(name: str) -> int:
    return (name.partition(".")[0] in _SENSITIVE) + (name in _HANDLERS)


def _archive(reader: PythonReader, call: ast.Call, _name: str) -> None:
    """`shutil.make_archive(base, format, root)`."""
    for path in reader.value(call.args[2]) if len(call.args) > 2 else ():
        reader.effects.run("tar", "-c", "-f", "archive.tar", path)


def _unpack(reader: PythonReader, call: ast.Call, _name: str) -> None:
    """`shutil.unpack_archive(file, folder)`."""
    target = call.args[1] if len(call.args) > 1 else _keyword(call, "extract_dir")
    for path in reader.value(target) if target is not None else ():
        reader.effects.run("unzip", "-d", path, "archive.zip")
        reader.effects.check_outside(path)


def _move(reader: PythonReader, call: ast.Call, name: str) -> None:
    """`Path(…).rename(…)`."""
    if isinstance(call.func, ast.Attribute) and call.args and name not in _HANDLERS:
        sources = reader.value(call.func.value)
        for source, target in product(sources, reader.value(call.args[0])):
            if source != UNKNOWN:
                reader.effects.run("mv", source, target)
                if UNKNOWN not in target[:1]:
                    reader.effects.check_outside(target)


_HANDLERS: Final[dict[str, Handler]] = {
    **dict.fromkeys((*_DELETES, *_TREES), _delete),
    **dict.fromkeys(_TEXT_RUNNERS, _run_text),
    **dict.fromkeys(_WORD_RUNNERS, _run_words),
    **dict.fromkeys(_EVALUATORS, _evaluate),
    **dict.fromkeys(OPENERS, _open),
    **dict.fromkeys(_COPIES, _copy),
    **dict.fromkeys(("os.chmod", "os.chown", "os.lchown", "os.fchmod"), _change_mode),
    **dict.fromkeys(("__import__", "importlib.import_module"), _import),
    **dict.fromkeys(("os.makedirs", "os.mkdir"), _make_folder),
    **dict.fromkeys(("call_command", "django.core.management.call_command"), _call_command),
    "os.truncate": _truncate,
    "runpy.run_path": _run_file,
    "os.chdir": _change_folder,
    "os.kill": _kill,
    "sqlite3.connect": _connect,
    "getattr": _attribute_by_name,
    "shutil.make_archive": _archive,
    "shutil.unpack_archive": _unpack,
    **dict.fromkeys(("print", "pprint.pprint", "pprint.pp", "sys.stdout.write"), _print),
}
_METHODS: Final[dict[str, Handler]] = {
    **dict.fromkeys(("unlink", "rmtree", "remove_tree"), _unlink),
    **dict.fromkeys(("system", "popen", "getoutput"), _run_text),
    **dict.fromkeys(("check_output", "check_call", "Popen"), _run_words),
    **dict.fromkeys(("write_text", "write_bytes"), _write_method),
    **dict.fromkeys(("read_text", "read_bytes"), _read_path),
    **dict.fromkeys(("execute", "executescript", "raw", "query"), _query),
    **dict.fromkeys(("sendall", "sendto"), _send),
    **dict.fromkeys(("extractall",), _extract),
    "open": _open_path,
    "rename": _move,
    "chmod": _change_mode,
    "mkdir": _make_folder,
}
_LAST_NAMES: Final = frozenset(
    name.rpartition(".")[2] for name in (*_HANDLERS, *_LOADERS, *_NATIVE, *_DANGERS)
)
