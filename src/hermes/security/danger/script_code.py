"""JavaScript, Perl, Ruby, PHP, Lua, R, Julia and awk given as text, read token by token.

`languages.toml` names the functions with an effect. Other code is harmless; what hides which
function it calls, and the constructs of other languages, cannot be read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import msgspec

from hermes.security.danger.inline import CodeEffects, code_tables
from hermes.security.danger.secrets import SECRET_NAME
from hermes.security.danger.system import lost_by
from hermes.security.shell.model import UNKNOWN
from hermes.security.shell.wrappers import option_values

NAME = "*"  #: Stands for a file name or a number.
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_QUOTE_WORDS = {
    "perl": {"q": 1, "qq": 1, "qw": 1, "qx": 1, "m": 1, "qr": 1, "s": 2, "tr": 2, "y": 2},
    "ruby": {"%w": 1, "%i": 1, "%q": 1, "%Q": 1, "%x": 1, "%r": 1, "%W": 1},
}
_ENDS = frozenset({
    ";", "}", ")", "or", "and", "if", "unless", "for", "foreach", "while", "do", "end", "&&", "||",
    "]", "\n", "rescue",
})  # fmt: skip
_PIECES = {
    **dict.fromkeys(
        [
            "my",
            "our",
            "local",
            "const",
            "let",
            "var",
            "glob",
            "File",
            "expand_path",
            "Dir",
            "os",
            "path",
            "env",
            "process",
            "ENV",
        ],
        "",
    ),
    **dict.fromkeys(("homedir", "HOME", "home"), "~"),
    **dict.fromkeys(("__dirname", "cwd", "pwd"), "."),
}
"""Names in an expression that add a known text."""
_METHOD_MARK = re.compile(r"\s\.(\w)")
_MAX_NESTED = 4
_MAX_ARGUMENT_TOKENS = 300
_MAX_TOKENS = 5_000
_GAP = {
    "js": re.compile(r"\$\{([^{}]*)\}"),
    "ruby": re.compile(r"#\{([^{}]*)\}"),
    "perl": re.compile(r"[@$]\{([^{}]*)\}|[$@][\w:]+(?:->)?(?:[\[{][^\]}]*[\]}])*"),
    "php": re.compile(r"\{(\$[^{}]*)\}|\$\{([^{}]*)\}|\$\w+(?:\[[^\]]*\]|->\w+)?"),
    "julia": re.compile(r"\$\(([^()]*)\)|\$\w+"),
}
_SUSPICIOUS = re.compile(
    r"(?i)system|exec|spawn|shell|\bcmd\b|\brun\b|process|popen|\brm\b|rmdir|delete|remove|unlink|eval"
    r"|\bload|open|write|\bfile|socket|http|\burl|kill|fork|import|require|include|`|!\s|apply"
    r"|invoke|reflect|\bsh\b|download|install|source|parse|port|\bdo\b|tell|delete|\bos\b|\bvar\b"
)
_PRINTING = re.compile(r"\bSystem\.(?:out|err)\.print|\bIO\.puts|\bConsole\.Write")
_POWERSHELL = re.compile(r"[A-Za-z]+-[A-Za-z]+")
_POWERSHELL_READS = re.compile(
    r"(?i)(?:get|select|where|format|measure|test|sort|convertto|convertfrom|group|compare|resolve)-\w+"
    r"|write-(?:host|output)|out-string|foreach-object"
)
_POWERSHELL_OTHER = re.compile(
    r"(?i)[&`]|::|\.\s|\biex\b|\[|\bri\b|\brm\b|\bdel\b|>|\bsaps\b|get-credential|irm|iwr"
)
_APPLESCRIPT_READS = re.compile(
    r"\s*(?:display (?:notification|dialog|alert)\b|return\b|get\b|say\b|path to\b|version\b|beep"
    r"|(?:input|output) volume\b"
    r"|tell app(?:lication)? \"[\w ]+\" to (?:get|return|count|activate)\b)"
    r"(?!.*\b(?:do shell script|delete|keystroke|password|do script)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SHELL_SCRIPT = re.compile(r'do (?:shell )?script "((?:[^"\\]|\\.)*)"')
_COUNT_UNCALLED = frozenset({
    "text_runners", "word_runners", "evaluators", "deletes", "trees", "kills", "losses", "dangers",
})  # fmt: skip
"""These count also where the function is only named, as in `map(unlink, …)`."""


class Token(NamedTuple):
    kind: str  #: `name`, `text`, `command`, `pattern`, `number` or `sign`.
    text: str


class Language(msgspec.Struct, frozen=True):
    """The functions of a language by what they do; see languages.toml."""

    family: str
    text_runners: str = ""
    word_runners: str = ""
    evaluators: str = ""
    deletes: str = ""
    trees: str = ""
    writes: str = ""
    copies: str = ""
    reads: str = ""
    fetches: str = ""
    sends: str = ""
    modes: str = ""
    imports: str = ""
    kills: str = ""
    losses: str = ""
    prints: str = ""
    dangers: str = ""
    hidden: str = ""
    sockets: str = ""


@cache
def _language(family: str) -> Language:
    return msgspec.convert(code_tables()[family], Language)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    words = [re.escape(word).replace(r"\*", r"\w*") for word in text.split()]
    return re.compile("(?:" + "|".join(words) + r")\Z" if words else r"(?!)")


def read_script(base: str, text: str, effects: CodeEffects) -> None:
    """Add the effects of code for the interpreter `base`."""
    family = next(
        (f for f, names in code_tables()["families"].items() if base in names.split()), ""
    )
    if family:
        reader = ScriptReader(_language(family), effects)
        if family == "awk":
            given = option_values(effects.invocation.arguments, ("-v", "--assign"))
            reader.known |= {name: value for name, _, value in (a.partition("=") for a in given)}
        reader.read(text)
    elif base == "osascript":
        _read_applescript(text, effects)
    elif base in ("pwsh", "powershell"):
        words = _POWERSHELL.findall(text)
        plain = words and all(map(_POWERSHELL_READS.fullmatch, words))
        if not plain or _POWERSHELL_OTHER.search(text):
            effects.hide("code of this language cannot be read")
    elif _SUSPICIOUS.search(_PRINTING.sub("", text)) or not text.strip():
        effects.hide("code of this language cannot be read")


def _read_applescript(text: str, effects: CodeEffects) -> None:
    for command in _SHELL_SCRIPT.findall(text):
        effects.danger("the code runs commands")
        effects.run_text(re.sub(r"\\(.)", r"\1", command))
    if not _APPLESCRIPT_READS.match(text):
        effects.hide("code of this language cannot be read")


# Tokens

_STRINGS = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`"
_LUA_LONG = r"\[\[.*?\]\]"
_COMMENTS = {
    "js": r"//[^\n]*|/\*.*?\*/",
    "php": r"//[^\n]*|\#[^\n]*|/\*.*?\*/|<\?php|\?>",
    "lua": r"--\[\[.*?\]\]|--[^\n]*",
}
_WORDS = {
    "js": r"[A-Za-z_$\u0080-\uffff][\w$]*",
    "perl": r"[$@%&]?[A-Za-z_]\w*(?:(?:::|')?\w+)*(?:::\w+)*|\$[&\d_!@/\\,;.]",
    "ruby": r"%[wiqQxrW](?=[^\w\s=])|[@$:]?[A-Za-z_]\w*[?!]?",
    "php": r"\$?[A-Za-z_]\w*",
    "r": r"[A-Za-z.][\w.]*",
    "julia": r"[A-Za-z_]\w*!?",
}
_REGEX = r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*"
_BEFORE_VALUE = frozenset({
    "return", "if", "unless", "and", "or", "not", "split", "grep", "when", "while", "print", "puts",
    "match", "until", "case", "typeof", "in",
})  # fmt: skip


@cache
def _scanner(family: str) -> re.Pattern[str]:
    comments = _COMMENTS.get(family, r"\#[^\n]*")
    if family in ("perl", "ruby"):
        comments = r"(?<![$\w{])\#[^\n]*"
    strings = _STRINGS if family != "lua" else f"{_STRINGS}|{_LUA_LONG}"
    if family in ("awk", "r"):
        strings = strings.replace("|`(?:[^`\\\\]|\\\\.)*`", "")
    word = _WORDS.get(family, r"[A-Za-z_]\w*")
    signs = r"=>|->|::|\?\.|&&|\|\||\|&|>>|<<|=~|!~|[=!]==?|\S"
    return re.compile(
        rf"(?P<space>\s+|{comments})|(?P<text>{strings})|(?P<name>{word})|(?P<number>\d[\w.]*)"
        rf"|(?P<sign>{signs})",
        re.DOTALL,
    )


class ScriptReader:
    """Reads one text."""

    def __init__(self, language: Language, effects: CodeEffects, depth: int = 0) -> None:
        self.language, self.family = language, language.family
        self.effects, self._depth = effects, depth
        self._tokens: list[Token] = []
        self.known: dict[str, str] = {}
        self.names: set[str] = set()
        self._aliases: dict[str, str] = {}

    def read(self, text: str) -> None:
        if self._depth > _MAX_NESTED:
            self.effects.hide("the code is nested too deeply")
            return
        self._tokens = list(self._tokenize(text))
        if len(self._tokens) > _MAX_TOKENS:
            self.effects.hide("the code is too long to be read")
            return
        self.names = {token.text for token in self._tokens}
        self._check_hidden(text)
        self._find_aliases()
        for position, token in enumerate(self._tokens):
            if token.kind == "command":
                self.effects.run_text(token.text)
            elif token.kind == "name":
                self._read_name(position)
            elif token.kind == "sign" and self.family == "awk":
                self._read_awk(position)
        self._check_sockets()

    def _check_hidden(self, text: str) -> None:
        if self.language.hidden and re.search(self.language.hidden.replace("\n", ""), text):
            self.effects.hide("the code hides which functions it uses")
        for position, token in enumerate(self._tokens[:-1]):
            if token.text == "]" and self._tokens[position + 1].text == "(":
                self._check_computed(position)

    def _runner_names(self) -> re.Pattern[str]:
        """Return a pattern of the functions that start programs or delete, without their owner."""
        names = (self.language.text_runners, self.language.word_runners, self.language.deletes)
        return _pattern(_METHOD_MARK.sub(r" \1", " " + " ".join(names)))

    def _find_aliases(self) -> None:
        """`{execSync: run} = …` and `run = ….execSync`: other names for functions."""
        known = self._runner_names()
        for before, sign, after in zip(
            self._tokens, self._tokens[1:], self._tokens[2:], strict=False
        ):
            if sign.text == ":" and known.match(before.text) and after.kind == "name":
                self._aliases[after.text] = f"?.{before.text}"

    def _check_computed(self, end: int) -> None:
        """`x[y](…)`: a function that is chosen when the code runs."""
        inside = self._tokens[end - 1]
        single = self._tokens[end - 2].text == "[" if end > 1 else False
        before = self._tokens[end - 3] if end > 2 else None
        if not single or before is None or before.kind not in ("name", "sign"):
            if self.family in ("js", "lua", "php"):
                self.effects.hide("the code hides which functions it uses")
        elif inside.kind == "text":
            self._call(inside.text, self._arguments(end + 1))
        elif inside.kind == "name" and self.family in ("js", "lua", "php"):
            self.effects.hide("the code hides which functions it uses")

    def _check_sockets(self) -> None:
        sockets = _pattern(self.language.sockets)
        starts = _pattern(f"{self.language.text_runners} {self.language.word_runners}")
        if any(map(sockets.match, self.names)) and (
            any(map(starts.match, self.names)) or not self.names.isdisjoint(("fdopen", "reopen"))
        ):
            self.effects.danger("the code connects a shell to the network", "network shell")

    # Tokens

    def _tokenize(self, text: str) -> Iterator[Token]:
        scanner, at, last = _scanner(self.family), 0, Token("sign", "")
        while at < len(text):
            if (
                text[at] == "/"
                and self._regex_allowed(last)
                and self.family not in ("php", "lua", "r")
            ):
                found = re.compile(_REGEX).match(text, at)
                if found:
                    last = Token("pattern", found[0])
                    yield last
                    at = found.end()
                    continue
            match = scanner.match(text, at)
            if match is None:  # an opening quote without its end
                self.effects.hide("the code cannot be parsed")
                return
            at, kind = match.end(), match.lastgroup or "sign"
            if kind == "space":
                if "\n" in match[0] and self.family in ("ruby", "r", "julia", "lua", "awk"):
                    yield Token("sign", "\n")
                continue
            quoted = _QUOTE_WORDS.get(self.family, {}).get(match[0]) if kind == "name" else None
            if quoted and last.text not in ("->", "{", "sub", "$", "."):
                end, made = self._quote(match[0], quoted, text, at)
                if made is not None:
                    yield made
                    last, at = made, end
                    continue
            last = self._string(match[0]) if kind == "text" else Token(kind, match[0])
            yield last

    def _regex_allowed(self, last: Token) -> bool:
        if last.kind == "sign":
            return last.text not in (")", "]", "}")
        return last.kind == "name" and last.text in _BEFORE_VALUE

    def _quote(self, word: str, parts: int, text: str, at: int) -> tuple[int, Token | None]:
        """Read `q{…}`, `s/a/b/e` and similar."""
        found = re.compile(r"\s*([^\w\s,;)=]|=(?![>=~\s]))").match(text, at)
        if found is None:
            return at, None
        opening, pieces, position = found[1], list[str](), found.end()
        for number in range(parts):
            if number and opening in _CLOSING:
                again = re.compile(r"\s*[\[({<]").match(text, position)
                position = again.end() if again else position
            end = _closing(text, position, opening)
            pieces.append(text[position:end])
            position = end + 1
        flags = re.compile(r"[a-z]*").match(text, position)
        letters = flags[0] if flags and word in ("s", "m", "qr", "tr", "y", "%r") else ""
        position += len(letters)
        if word == "s" and "e" in letters:
            if letters.count("e") > 1:
                self.effects.hide("the code runs other code that is known only when it runs")
            self.read_nested(pieces[-1])
        if word in ("qx", "%x"):
            return position, Token("command", self._fill(pieces[0]))
        if word in ("q", "qq", "qw", "%w", "%q", "%Q"):
            return position, Token("text", self._fill(pieces[0]) if word != "q" else pieces[0])
        for code in re.findall(r"\(\?\??\{(.*?)\}\)", "".join(pieces[:1]), re.DOTALL):
            self.read_nested(code)
        return position, Token("pattern", "".join(pieces))

    def _string(self, text: str) -> Token:
        if text.startswith("[["):
            return Token("text", text[2:-2])
        quote, inner = text[0], text[1:-1]
        if quote == "`" and self.family in ("perl", "ruby", "php", "julia"):
            return Token("command", self._fill(inner))
        plain = re.sub(r"\\x([0-9a-fA-F]{2})", lambda f: chr(int(f[1], 16)), inner)
        plain = re.sub(r"\\u\{?([0-9a-fA-F]{4})\}?", lambda f: chr(int(f[1], 16)), plain)
        plain = re.sub(r"\\([0-7]{3})", lambda f: chr(int(f[1], 8) % 256), plain)
        plain = re.sub(r"\\n", "\n", plain)
        literal = quote == "'" or (quote == '"' and self.family == "js")
        plain = plain if literal else self._fill(plain)
        return Token("text", re.sub(r"\\(.)", r"\1", plain, flags=re.DOTALL))

    def _fill(self, text: str) -> str:
        """Replace what is put into a string when the code runs; code inside is read too."""
        gap = _GAP.get(self.family)
        if gap is None:
            return text

        def value(found: re.Match[str]) -> str:
            inner = next((group for group in found.groups() if group), "")
            if inner:
                self.read_nested(inner)
            name = (inner or found[0]).strip("${}#")
            return self.known.get(name, self.known.get(f"${name}", UNKNOWN))

        return gap.sub(value, text)

    def read_nested(self, text: str) -> None:
        reader = ScriptReader(self.language, self.effects, self._depth + 1)
        reader.known = self.known
        reader.read(text)

    # Names and calls

    def _read_name(self, position: int) -> None:
        token = self._tokens[position]
        after = (
            self._tokens[position + 1] if position + 1 < len(self._tokens) else Token("sign", ";")
        )
        if after.text == "=" and after.kind == "sign":
            self._assign(token.text, position + 2)
            return
        chain = self._chain(position)
        chain = self._aliases.get(chain, chain)
        if chain in ("$", "Bun.$", "zx.$") and after.kind == "text" and self.family == "js":
            self.effects.run_text(after.text)
        elif after.text == "(" and after.kind == "sign":
            self._call(chain, self._arguments(position + 1))
        elif self.family in ("perl", "ruby", "lua", "php", "js"):
            follows = after.kind != "sign" or after.text in ("<", "[", "$", "(", "-", "@", "\\")
            bare = self.family in ("perl", "ruby") or (
                after.kind == "text"
                and (self.family != "js" or token.text in ("import", "from", "$"))
            )
            self._call(chain, self._bare_arguments(position + 1) if follows and bare else None)

    def _chain(self, position: int) -> str:
        """Return `fs.rmSync` for the last name of that, also after `require("fs")`."""
        parts = [self._tokens[position].text]
        at = position - 1
        while at > 0 and self._tokens[at].text in (".", "::", "->", "?.", ":") and len(parts) < 6:
            before = self._tokens[at - 1]
            if before.kind == "name":
                parts.append(before.text)
                at -= 2
            elif before.text == ")" and at > 3 and self._tokens[at - 2].kind == "text":
                parts.append(self._tokens[at - 2].text.removeprefix("node:"))
                break
            else:
                parts.append("?")
                break
        return ".".join(reversed(parts))

    def _assign(self, name: str, start: int) -> None:
        """Remember a text that is given to a name."""
        tokens = self._statement(start)
        value = self.value(tokens)
        self.known[name] = UNKNOWN if self.known.get(name, value) != value else value
        text = "".join(token.text for token in tokens)
        runners = self._runner_names()
        plain = self.family in ("js", "lua") and "." in text and tokens[-1].kind == "name"
        if plain and runners.match(tokens[-1].text):
            self._aliases[name] = f"?.{tokens[-1].text}"

    def _arguments(self, opening: int) -> list[list[Token]]:
        """Return the arguments between the bracket at `opening` and its end."""
        found: list[list[Token]] = [[]]
        depth = 0
        for token in self._tokens[opening : opening + _MAX_ARGUMENT_TOKENS]:
            sign = token.text if token.kind == "sign" else ""
            if sign in ("(", "[", "{"):
                depth += 1
                if depth == 1:
                    continue
            elif sign in (")", "]", "}"):
                depth -= 1
                if not depth:
                    break
            if sign == "," and depth == 1:
                found.append([])
            else:
                found[-1].append(token)
        return [each for each in found if each]

    def _bare_arguments(self, start: int) -> list[list[Token]]:
        """`system "rm", "-rf", "x"`."""
        found: list[list[Token]] = [[]]
        depth = 0
        for token in self._tokens[start : start + _MAX_ARGUMENT_TOKENS]:
            if depth <= 0 and token.text in _ENDS and token.kind != "text":
                break
            depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "sign" else 0
            if token.text == "," and token.kind == "sign" and not depth:
                found.append([])
            else:
                found[-1].append(token)
        return [each for each in found if each]

    def value(self, tokens: Sequence[Token]) -> str:
        """Return the text of an expression; UNKNOWN stands for unknown parts."""
        if not tokens:
            return UNKNOWN
        joined = "".join(token.text for token in tokens if token.kind != "text")
        if re.match(r"(?:path\.)?(?:join|resolve)\(|File\.join\(|file\.path\(", joined):
            start = next(i for i, token in enumerate(tokens) if token.text == "(")
            pieces = [self.piece(t) for t in tokens[start + 1 :] if t.kind != "sign"]
            return "/".join(filter(None, pieces))
        pieces = []
        for token in tokens:
            if token.kind == "sign" and token.text in ("+", ".", "..", "(", ")", ",", "\\"):
                continue
            pieces.append(self.piece(token))
        text = "".join(pieces)
        return re.sub(f"{UNKNOWN}+", UNKNOWN, text)

    def piece(self, token: Token) -> str:
        if token.kind in ("text", "number"):
            return token.text
        if token.text in _PIECES:
            return _PIECES[token.text]
        return self.known.get(token.text, UNKNOWN)

    def _call(self, chain: str, arguments: list[list[Token]] | None) -> None:
        """Add the effect of a call; `arguments` is None for a name that is not called."""
        for action, handler in _ACTIONS.items():
            names: str = getattr(self.language, action)
            if names and self._names_function(names, chain):
                if arguments is not None or action in _COUNT_UNCALLED:
                    handler(self, chain, arguments)
                return

    def _names_function(self, names: str, chain: str) -> bool:
        """Return whether the chain is one of the functions. A name with a dot is compared with
        the end of the chain; one without must not belong to an object, unless it starts with a
        dot: `.execSync` is a method of anything."""
        last = chain.rpartition(".")[2]
        for name in names.split():
            if name.startswith("."):
                if last == name[1:] and (chain.startswith("?") or "." in chain or last == chain):
                    return True
            elif "." in name:
                if chain == name or chain.endswith(f".{name}"):
                    return True
            elif chain in (
                name,
                f"Kernel.{name}",
                f"CORE.{name}",
                f"main.{name}",
                f"Process.{name}",
            ):
                return True
        return False

    def texts(self, arguments: list[list[Token]] | None) -> list[str]:
        return [self.value(each) for each in arguments or ()]

    # awk

    def _read_awk(self, position: int) -> None:
        token, after = self._tokens[position], self._tokens[position + 1 : position + 3]
        before = self._tokens[position - 1] if position else Token("sign", "")
        if token.text in ("|", "|&"):
            if any(each.text == "getline" for each in after[:1]):
                self.effects.run_text(self.piece(before))
            elif after:
                self.effects.run_text(self.piece(after[0]))
        elif token.text in (">", ">>") and self._prints_before(position):
            target = self.value(self._statement(position + 1))
            self.effects.write(target if "/" in target or UNKNOWN not in target else NAME)

    def _statement(self, start: int) -> list[Token]:
        """Return the tokens up to the end of the statement."""
        found: list[Token] = []
        for token in self._tokens[start : start + 40]:
            if token.kind == "sign" and token.text in (";", "\n", ",", "}"):
                break
            found.append(token)
        return found

    def _prints_before(self, position: int) -> bool:
        for token in reversed(self._tokens[:position]):
            if token.kind == "name" and token.text in ("print", "printf"):
                return True
            if token.kind == "sign" and token.text in ("{", "}", ";", "\n", "("):
                return False
        return False


# What a call does


def _mentions(reader: ScriptReader, *names: str) -> bool:
    return any(name in reader.names or f"node:{name}" in reader.names for name in names)


def _on_text_runners(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
    ambiguous = chain.rpartition(".")[2] in ("exec", "fork") and reader.family == "js"
    if ambiguous and not _mentions(reader, "child_process", "shelljs", "execa"):
        return  # the method of a pattern
    if arguments is None:
        _passed(reader, chain)
        return
    words = _list(reader, arguments)
    if len(words) > 1 and reader.family in ("perl", "ruby"):
        reader.effects.run_words(words)
    else:
        reader.effects.run_text(words[0] if words else UNKNOWN)


def _passed(reader: ScriptReader, chain: str) -> None:
    if "." not in chain and reader.family not in ("perl", "ruby"):
        return  # a name that is only imported
    reader.effects.hide("the code starts a program that is known only when it runs")


def _list(reader: ScriptReader, arguments: list[list[Token]]) -> list[str]:
    """Return the arguments with the members of lists among them."""
    words: list[str] = []
    for argument in arguments:
        if argument and argument[0].text == "[" and argument[0].kind == "sign":
            inner = [t for t in argument if t.kind != "sign" or t.text not in ("[", "]")]
            words += [reader.piece(token) for token in inner if token.text != ","]
        elif not argument or argument[0].text != "{" or argument[0].kind == "text":
            words.append(reader.value(argument))
    return words


def _on_word_runners(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
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


def _on_evaluators(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
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


def _on_deletes(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    if reader.family == "js" and not _mentions(
        reader, "fs", "fs/promises", "fs-extra", "rimraf", "del", "Deno", "Bun", "shelljs"
    ):
        return
    options = {token.text for each in arguments or () for token in each}
    tree = bool(options & {"recursive", "rm_rf", "rm_r", "TRUE", "true"})
    for path in reader.texts(arguments)[:1] or [UNKNOWN]:
        reader.effects.delete(path, tree=tree)


def _on_trees(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    if reader.family == "js" and arguments is None:
        return
    for path in reader.texts(arguments)[:1] or [UNKNOWN]:
        reader.effects.delete(path, tree=True)


def _on_writes(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
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


def _open(reader: ScriptReader, texts: list[str]) -> None:
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


def _on_copies(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
    texts = reader.texts(arguments)
    if len(texts) > 1:
        name = chain.lower()
        program = "mv" if "rename" in name or "mv" in name or "move" in name else "cp"
        program = "ln" if "link" in name else program
        reader.effects.run(program, *texts[:2])
        if not texts[1].startswith(UNKNOWN):
            reader.effects.check_outside(texts[1])


def _on_reads(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    for path in reader.texts(arguments)[:1]:
        if path.startswith(("http://", "https://")):
            reader.effects.fetch(path)
        elif path.startswith("php://"):
            continue
        else:
            reader.effects.read(path)


def _on_fetches(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    reader.effects.fetch(*reader.texts(arguments)[:1])


def _on_sends(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    reader.effects.fetch("-d", "data", *reader.texts(arguments)[:1])


def _on_modes(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    texts = reader.texts(arguments)
    modes = [text.removeprefix("0o") for text in texts if re.fullmatch(r"0?o?[0-7]{3,4}", text)]
    paths = [text for text in texts if text.removeprefix("0o") not in modes]
    reader.effects.run("chmod", *(modes[:1] or ["644"]), *paths[:3])


def _on_imports(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    for module in reader.texts(arguments)[:1]:
        if module.startswith(UNKNOWN):
            reader.effects.hide("the code loads a module that is known only when it runs")
        elif module.startswith(("http://", "https://", "data:")):
            reader.effects.danger("runs code fetched from the network", "remote code")


def _on_kills(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    if arguments and reader.texts(arguments)[-1] != "0":
        reader.effects.danger("the code ends processes")


def _on_losses(reader: ScriptReader, chain: str, arguments: list[list[Token]] | None) -> None:
    texts = reader.texts(arguments)
    if chain.rpartition(".")[2] not in ("query", "exec", "execute", "statement", "do", "raw"):
        reader.effects.danger("the code deletes rows of a database", "destructive SQL")
    elif any(map(lost_by, texts)):
        reader.effects.run("sqlite3", "database", *texts)


def _on_prints(reader: ScriptReader, _chain: str, arguments: list[list[Token]] | None) -> None:
    for argument in arguments or ():
        texts = [token.text.lstrip("$") for token in argument]
        if {"env", "ENV", "getenv", "_ENV", "process"} & set(texts) and len(texts) < 9:
            for name in texts:
                if SECRET_NAME.search(name):
                    reader.effects.run("printenv", name)


def _on_dangers(reader: ScriptReader, chain: str, _arguments: list[list[Token]] | None) -> None:
    reader.effects.danger(f"the code uses {chain.rpartition('.')[2]}")


_ACTIONS: dict[str, Callable[[ScriptReader, str, list[list[Token]] | None], None]] = {
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
    "modes": _on_modes,
    "imports": _on_imports,
    "kills": _on_kills,
    "losses": _on_losses,
    "prints": _on_prints,
    "dangers": _on_dangers,
}


def _closing(text: str, at: int, opening: str) -> int:
    """Return where a quoted part ends that was opened by `opening` before `at`."""
    closing, depth = _CLOSING.get(opening, opening), 1
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter == closing:
            depth -= 1
            if not depth:
                return at
        elif letter == opening:
            depth += 1
        at += 1
    return len(text)
