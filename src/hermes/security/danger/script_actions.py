"""What functions of scripting languages do: the effects of calls that `script_code` finds."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hermes.security.danger.inline import NAME
from hermes.security.danger.secrets import SECRET_NAME
from hermes.security.danger.system import lost_by
from hermes.security.shell.model import UNKNOWN

if TYPE_CHECKING:
    from hermes.security.danger.script_code import ScriptReader


class Token(NamedTuple):
    kind: str  #: `name`, `text`, `command`, `pattern`, `number` or `sign`.
    text: str


Arguments = list[list[Token]] | None
"""Those of a call; None for a name that is not called."""


def _mentions(reader: "ScriptReader", *names: str) -> bool:
    return any(name in reader.names or f"node:{name}" in reader.names for name in names)


def _on_text_runners(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    ambiguous = chain.rpartition(".")[2] in ("exec", "fork") and reader.family == "js"
    if ambiguous and not _mentions(reader, "child_process", "shelljs", "execa", "ssh2", "node-ssh"):
        return  # the method of a pattern
    if arguments is None:
        _passed(reader, chain)
        return
    words = _list(reader, arguments)
    if any(map(lost_by, words)):
        _on_losses(reader, ".execute", arguments)
    elif len(words) > 1 and reader.family in ("perl", "ruby"):
        reader.effects.run_words(words)
    else:
        reader.effects.run_text(words[0] if words else UNKNOWN)


def _passed(reader: "ScriptReader", chain: str) -> None:
    if "." not in chain and reader.family not in ("perl", "ruby"):
        return  # a name that is only imported
    reader.effects.hide("the code starts a program that is known only when it runs")


def _list(reader: "ScriptReader", arguments: list[list[Token]]) -> list[str]:
    """Return the arguments with the members of lists among them."""
    words: list[str] = []
    for argument in arguments:
        if argument and argument[0].text == "[" and argument[0].kind == "sign":
            inner = [t for t in argument if t.kind != "sign" or t.text not in ("[", "]")]
            words += [reader.piece(token) for token in inner if token.text != ","]
        elif not argument or argument[0].text != "{" or argument[0].kind == "text":
            words.append(reader.value(argument))
        elif any(token.text == "args" for token in argument[:2]):  # of `Deno.Command`
            words += [token.text for token in argument if token.kind == "text"]
    return words


def _on_word_runners(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    if arguments is None:
        _passed(reader, chain)
        return
    words = _list(reader, arguments)
    if reader.family == "js" and any(t.text == "shell" for a in arguments for t in a):
        reader.effects.run_text(" ".join(words))
    elif len(words) == 1 and " " in words[0] and reader.family != "js":
        reader.effects.run_text(words[0])
    else:
        reader.effects.run_words([w for w in words if w] or [UNKNOWN])


def _on_evaluators(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    if arguments is None and reader.family in ("perl", "ruby"):
        return  # `eval { … }`
    first = (arguments or [[]])[0]
    plain = len(first) == 1 and first[0].kind == "text" and UNKNOWN not in first[0].text
    if plain and chain != "Function":
        reader.read_nested(first[0].text)
    elif chain not in ("setTimeout", "setInterval") and not (
        reader.family == "r" and first and first[0].text in ("quote", "expression")
    ):
        reader.effects.hide("the code runs other code that is known only when it runs")


def _on_deletes(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    if reader.family == "js" and not _mentions(
        reader, "fs", "fs/promises", "fs-extra", "rimraf", "del", "Deno", "Bun", "shelljs"
    ):
        return
    options = {token.text for each in arguments or () for token in each}
    tree = bool(options & {"recursive", "rm_rf", "rm_r", "TRUE", "true"})
    for path in reader.texts(arguments)[:1] or [UNKNOWN]:
        reader.effects.delete(path, tree=tree)


def _on_trees(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    if reader.family == "js" and arguments is None:
        return
    for path in reader.texts(arguments)[:1] or [UNKNOWN]:
        reader.effects.delete(path, tree=True)


def _on_writes(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    texts = reader.texts(arguments)
    name = chain.rpartition(".")[2]
    if not texts:
        return
    if name in ("open", "fopen", "openSync", "file", "popen"):
        _open(reader, texts)
    elif reader.family == "r":
        named = [t for t in texts if re.search(r"\.\w{1,5}\Z|/", t)]
        reader.effects.write(named[-1] if named else NAME)
    else:
        known = texts[1] if len(texts) > 1 and UNKNOWN not in texts[1] else None
        reader.effects.write(texts[0], known, append="append" in name)


def _open(reader: "ScriptReader", texts: list[str]) -> None:
    """`open(F, ">x")`, `open(my $f, ">", $x)`, `File.open("x", "w")`, `fopen("x", "w")`."""
    if reader.family == "perl":
        mode = texts[1] if len(texts) > 1 else ""
        path = texts[2] if len(texts) > 2 else mode.lstrip("+<> ")
        pipe = mode.strip(" ")
        if pipe.startswith(("|", "-|")) or pipe.endswith("|"):
            reader.effects.run_text(path.strip("|- ") or UNKNOWN)
        elif ">" in mode:
            reader.effects.write(path or UNKNOWN, append=">>" in mode)
        elif UNKNOWN in mode:
            reader.effects.hide("the code opens a file or program known only when it runs")
        else:
            reader.effects.read(path)
        return
    path, mode = texts[0], texts[1] if len(texts) > 1 else "r"
    if path.startswith("|"):
        reader.effects.run_text(path[1:])
    elif set("wax+") & set(mode) and len(mode) < 6:
        reader.effects.write(path, append="a" in mode)
    elif path.startswith(("http://", "https://")):
        reader.effects.fetch(path)
    else:
        reader.effects.read(path)


def _on_copies(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    texts = reader.texts(arguments)
    if len(texts) > 1:
        name = chain.lower()
        program = "mv" if "rename" in name or "mv" in name or "move" in name else "cp"
        program = "ln" if "link" in name else program
        if texts[0].startswith(("http://", "https://")):
            reader.effects.fetch("-o", texts[1], texts[0])
        else:
            reader.effects.run(program, *texts[:2])
        if not texts[1].startswith(UNKNOWN):
            reader.effects.check_outside(texts[1])


def _on_reads(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    for path in reader.texts(arguments)[:1]:
        if path.startswith(("http://", "https://")):
            reader.effects.fetch(path)
        elif path.startswith("php://"):
            continue
        elif path.startswith("|") and reader.family == "ruby":
            reader.effects.run_text(path[1:])
        else:
            reader.effects.read(path)


_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HTTP = frozenset({
    "axios", "got", "ky", "needle", "superagent", "request", "undici", "HTTParty", "Faraday",
    "HTTP", "RestClient", "Excon", "Http", "httr", "Net", "http", "https",
})  # fmt: skip
"""Clients of HTTP; other functions may be of the same name."""


def _option(arguments: Arguments, *names: str) -> str:
    """Return the text after one of the names: `method: "POST"`."""
    tokens = [token for argument in arguments or () for token in argument]
    for name, sign, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if name.text in names and sign.text in (":", "=>", "="):
            return value.text if value.kind == "text" else UNKNOWN
    return ""


def _address(reader: "ScriptReader", arguments: Arguments) -> str:
    named = _option(arguments, "url", "uri", "hostname", "host", "baseURL")
    texts = reader.texts(arguments)
    return named or next((text for text in texts if "://" in text), (texts or [UNKNOWN])[0])


def _on_fetches(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    url = _address(reader, arguments)
    sent = _option(arguments, "method").upper() in _METHODS or _option(arguments, "body", "data")
    if sent or (reader.family == "lua" and len(arguments or ()) > 1):
        reader.effects.send(url, "-d", "data")
    elif url.startswith(UNKNOWN) and chain in ("axios", "got"):
        return
    else:
        reader.effects.fetch(url)


def _on_sends(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    url, method = _address(reader, arguments), _option(arguments, "method").upper()
    if url.startswith("/"):
        url = _option([reader.tokens], "baseURL", "prefixUrl") or url
    if method in ("GET", "HEAD") or not ("://" in url or chain.partition(".")[0] in _HTTP):
        return
    if chain == "WebSocket" and "send" not in reader.names:
        return
    if chain.endswith(".request") and not method and reader.names.isdisjoint(_METHODS):
        reader.effects.fetch(url)
    else:
        reader.effects.send(url, "-d", "data")


def _on_serves(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    for token in (token for argument in arguments or () for token in argument):
        if token.kind == "text":
            reader.effects.serve(re.sub(r"^\w+://|:\d+$", "", token.text))


def _on_modes(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    texts = reader.texts(arguments)
    modes = [text.removeprefix("0o") for text in texts if re.fullmatch(r"0?o?[0-7]{3,4}", text)]
    paths = [text for text in texts if text.removeprefix("0o") not in modes]
    reader.effects.run("chmod", *(modes[:1] or ["644"]), *paths[:3])


def _on_imports(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    for module in reader.texts(arguments)[:1]:
        if module.startswith(UNKNOWN):
            reader.effects.hide("the code loads a module that is known only when it runs")
        elif module.startswith(("http://", "https://", "data:")) or (
            reader.effects.online and module.startswith("/")
        ):
            reader.effects.danger("runs code fetched from the network", "remote code")


def _on_kills(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    if arguments and reader.texts(arguments)[-1] != "0":
        reader.effects.danger("the code ends processes")


def _on_losses(reader: "ScriptReader", chain: str, arguments: Arguments) -> None:
    texts = reader.texts(arguments)
    if not re.search(r"(?:^|[._])(?:query|exec|execute|statement|do|raw)\Z", chain):
        reader.effects.danger("the code deletes rows of a database", "destructive SQL")
    elif any(map(lost_by, texts)):
        reader.effects.run("sqlite3", "database", *texts)


def on_prints(reader: "ScriptReader", _chain: str, arguments: Arguments) -> None:
    for argument in arguments or ():
        texts = [token.text.lstrip("$") for token in argument]
        if _ENVIRONMENTS & set(texts) and len(texts) < 12:
            for name in texts:
                if SECRET_NAME.search(name):
                    reader.effects.run("printenv", name)


def _on_dangers(reader: "ScriptReader", chain: str, _arguments: Arguments) -> None:
    reader.effects.danger(f"the code uses {chain.rpartition('.')[2]}")


_ENVIRONMENTS = frozenset({
    "env", "ENV", "getenv", "_ENV", "process", "ENVIRON", "Sys.getenv", "environ", "_SERVER",
})  # fmt: skip

ACTIONS: dict[str, Callable[["ScriptReader", str, Arguments], None]] = {
    "text_runners": _on_text_runners,
    "word_runners": _on_word_runners,
    "evaluators": _on_evaluators,
    "deletes": _on_deletes,
    "trees": _on_trees,
    "writes": _on_writes,
    "copies": _on_copies,
    "reads": _on_reads,
    "fetches": _on_fetches,
    "sends": _on_sends,
    "serves": _on_serves,
    "modes": _on_modes,
    "imports": _on_imports,
    "kills": _on_kills,
    "losses": _on_losses,
    "prints": on_prints,
    "dangers": _on_dangers,
}
