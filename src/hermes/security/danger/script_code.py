"""JavaScript, Perl, Ruby, PHP, Lua, R, Julia and awk given as text, read token by token.

`languages.toml` names the functions with an effect. Other code is harmless; what hides which
function it calls, and the constructs of other languages, cannot be read.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from hermes.security.danger.inline import NAME, CodeEffects, changes, code_tables, loses, reveals
from hermes.security.danger.script_actions import ACTIONS, Arguments, Token, on_prints
from hermes.security.shell.model import UNKNOWN, program_name
from hermes.security.shell.wrappers import SHELLS, option_values

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
    **dict.fromkeys(("URI", "URL", "new", "parse"), ""),
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
_POWERSHELL_VALUE = re.compile(
    r"\s*(?:\$PSVersionTable[\w.()]*|\$PSHOME|\$PWD|[\d\s.+*/()-]+)\s*;?\s*"
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
_POSTS = re.compile(r"CURLOPT_(?:POST\w*|UPLOAD|CUSTOMREQUEST|INFILE)\Z")
_COUNT_UNCALLED = frozenset({
    "text_runners", "word_runners", "evaluators", "deletes", "trees", "kills", "losses", "dangers",
})  # fmt: skip
"""These count also where the function is only named, as in `map(unlink, …)`."""


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
    serves: str = ""
    services: str = ""
    databases: str = ""


@cache
def _language(family: str) -> Language:
    return msgspec.convert(code_tables()[family], Language)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    words = [re.escape(word).replace(r"\*", r"[\w/.:-]*") for word in text.split()]
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
        reader.service = base in ("wp", "drush")
        reader.read(text)
    elif base == "osascript":
        _read_applescript(text, effects)
    elif base == "expect":
        _read_expect(text, effects)
    elif base in ("pwsh", "powershell"):
        words = _POWERSHELL.findall(text)
        plain = words and all(map(_POWERSHELL_READS.fullmatch, words))
        if _POWERSHELL_VALUE.fullmatch(text):
            return
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


_EXPECT = re.compile(
    r"(?:^|[;\n{])\s*(?P<verb>spawn|send|exec|system)\s+(?:-\w+\s+)*(?P<rest>\"(?:[^\"\\]|\\.)*\"|[^;\n}]*)"
)
_SPAWNS_SHELL = re.compile(
    r"(?:sudo|su|ssh|telnet|docker|kubectl|screen|tmux|login|psql|mysql|ftp|sftp)\b"
)


def _read_expect(text: str, effects: CodeEffects) -> None:
    """`spawn program; send "text"`: what is sent to a shell is a command."""
    found = [(each["verb"], each["rest"].strip('"{} ')) for each in _EXPECT.finditer(text)]
    spawned = [rest for verb, rest in found if verb == "spawn"]
    shell = any(
        _SPAWNS_SHELL.match(r) or program_name(r.split()[0]) in SHELLS for r in spawned if r
    )
    for verb, rest in found:
        if verb != "send" or shell:
            effects.run_text(re.sub(r"(?:\\[rn])+\Z", "", rest))
    if shell or not found or _SUSPICIOUS.search(_EXPECT.sub("", text)):
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
        self.tokens: list[Token] = []
        self.known: dict[str, str] = {}
        self.names: set[str] = set()
        self._aliases: dict[str, str] = {}
        self.service = self.database = False  #: The code uses the client of one.

    def read(self, text: str) -> None:
        if self._depth > _MAX_NESTED:
            self.effects.hide("the code is nested too deeply")
            return
        self.tokens = list(self._tokenize(text))
        if len(self.tokens) > _MAX_TOKENS:
            self.effects.hide("the code is too long to be read")
            return
        self.names = {token.text for token in self.tokens}
        self.service = self.service or self._mentions_module(self.language.services)
        self.database = self.database or self._mentions_module(self.language.databases)
        self._check_hidden(text)
        self._find_aliases()
        for position, token in enumerate(self.tokens):
            if token.kind == "command":
                self.effects.run_text(token.text)
            elif token.kind == "name":
                self._read_name(position)
            elif token.kind == "sign" and self.family == "awk":
                self._read_awk(position)
        self._check_sockets()
        self._check_shown()

    def _check_hidden(self, text: str) -> None:
        if self.language.hidden and re.search(self.language.hidden.replace("\n", ""), text):
            self.effects.hide("the code hides which functions it uses")
        for position, token in enumerate(self.tokens[:-1]):
            if token.text == "]" and self.tokens[position + 1].text == "(":
                self._check_computed(position)
            elif token.text == ")" and self.tokens[position + 1].text == "(":
                self._check_module(position)

    def _runner_names(self) -> re.Pattern[str]:
        """Return a pattern of the functions that start programs or delete, without their owner."""
        names = (self.language.text_runners, self.language.word_runners, self.language.deletes)
        return _pattern(_METHOD_MARK.sub(r" \1", " " + " ".join(names)))

    def _find_aliases(self) -> None:
        """`{execSync: run} = …` and `run = ….execSync`: other names for functions."""
        known = self._runner_names()
        for before, sign, after in zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False):
            if sign.text == ":" and known.match(before.text) and after.kind == "name":
                self._aliases[after.text] = f"?.{before.text}"

    def _check_computed(self, end: int) -> None:
        """`x[y](…)`: a function that is chosen when the code runs."""
        inside = self.tokens[end - 1]
        single = self.tokens[end - 2].text == "[" if end > 1 else False
        before = self.tokens[end - 3] if end > 2 else None
        if not single or before is None or before.kind not in ("name", "sign"):
            if self.family in ("js", "lua", "php"):
                self.effects.hide("the code hides which functions it uses")
        elif inside.kind == "text":
            self._call(inside.text, self._arguments(end + 1))
        elif inside.kind == "name" and self.family in ("js", "lua", "php"):
            self.effects.hide("the code hides which functions it uses")

    def _check_module(self, end: int) -> None:
        """`require("axios")(…)`: the module itself is a function."""
        function, module = self.tokens[end - 3 : end : 2] if end > 2 else (None, None)
        if function and module and function.text == "require" and module.kind == "text":
            self._call(module.text, self._arguments(end + 1))

    def _check_sockets(self) -> None:
        sockets = _pattern(self.language.sockets)
        starts = _pattern(f"{self.language.text_runners} {self.language.word_runners}")
        if any(map(sockets.match, self.names)) and (
            any(map(starts.match, self.names)) or not self.names.isdisjoint(("fdopen", "reopen"))
        ):
            self.effects.danger("the code connects a shell to the network", "network shell")

    def _check_shown(self) -> None:
        """`node -p process.env.TOKEN` and `awk '{print ENVIRON["TOKEN"]}'`; PHP that posts."""
        words = self.effects.invocation.arguments
        shows = self.family == "js" and any(re.match(r"-[a-z]*p|--print", w) for w in words)
        if shows or (self.family == "awk" and not self.names.isdisjoint(("print", "printf"))):
            on_prints(self, "", [self.tokens[-11:]])
        if any(map(_POSTS.match, self.names)) or {"stream_context_create", "POST"} <= self.names:
            texts = (token.text for token in self.tokens if token.kind == "text")
            self.effects.send(next((text for text in texts if "://" in text), UNKNOWN))

    def _mentions_module(self, modules: str) -> bool:
        found = _pattern(modules)
        return bool(modules) and any(
            token.kind in ("text", "name") and found.match(token.text) for token in self.tokens
        )

    def _check_service(self, chain: str) -> None:
        """A function of the client of a service or database."""
        name = chain.rpartition(".")[2]
        if name == "send" and any(each.endswith("Command") for each in self.names):
            return  # the command that is sent decides
        if changes(name) and self.service:
            self.effects.danger("the code changes what a service holds", "infrastructure")
        elif reveals(name) and self.service:
            self.effects.danger("the code reads keys that a service holds", "credential access")
        elif loses(name) and self.database:
            self.effects.danger("the code deletes rows of a database", "destructive SQL")

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
        reader.service, reader.database = self.service, self.database
        reader.read(text)

    # Names and calls

    def _read_name(self, position: int) -> None:
        token = self.tokens[position]
        after = self.tokens[position + 1] if position + 1 < len(self.tokens) else Token("sign", ";")
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
            bare = bare or (self.family == "php" and token.text in ("echo", "print"))
            self._call(chain, self._bare_arguments(position + 1) if follows and bare else None)

    def _chain(self, position: int) -> str:
        """Return `fs.rmSync` for the last name of that, also after `require("fs")`."""
        parts = [self.tokens[position].text]
        at = position - 1
        while at > 0 and self.tokens[at].text in (".", "::", "->", "?.", ":") and len(parts) < 6:
            before = self.tokens[at - 1]
            if before.kind == "name":
                parts.append(before.text)
                at -= 2
            elif before.text == ")" and at > 3 and self.tokens[at - 2].kind == "text":
                parts.append(self.tokens[at - 2].text.removeprefix("node:"))
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
        for token in self.tokens[opening : opening + _MAX_ARGUMENT_TOKENS]:
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
        for token in self.tokens[start : start + _MAX_ARGUMENT_TOKENS]:
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

    def _call(self, chain: str, arguments: Arguments) -> None:
        """Add the effect of a call; `arguments` is None for a name that is not called."""
        passed = self.family == "ruby" and chain.startswith(":")  # `each(&:delete)`
        if (arguments is not None or passed) and (self.service or self.database):
            self._check_service(chain.lstrip(":"))
        for action, handler in ACTIONS.items():
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

    def texts(self, arguments: Arguments) -> list[str]:
        return [self.value(each) for each in arguments or ()]

    # awk

    def _read_awk(self, position: int) -> None:
        token, after = self.tokens[position], self.tokens[position + 1 : position + 3]
        before = self.tokens[position - 1] if position else Token("sign", "")
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
        for token in self.tokens[start : start + 40]:
            if token.kind == "sign" and token.text in (";", "\n", ",", "}"):
                break
            found.append(token)
        return found

    def _prints_before(self, position: int) -> bool:
        for token in reversed(self.tokens[:position]):
            if token.kind == "name" and token.text in ("print", "printf"):
                return True
            if token.kind == "sign" and token.text in ("{", "}", ";", "\n", "("):
                return False
        return False


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
