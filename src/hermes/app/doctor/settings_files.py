"""config.yaml, .env and auth.json: what is wrong in them. No value of a key is ever shown."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from hermes.app.doctor.findings import Finding, Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config import dotenv, edit
from hermes.config.home import Home, tilde
from hermes.config.loader import describe, examine
from hermes.config.masking import is_secret_variable
from hermes.core.errors import ConfigError
from hermes.providers.credentials import AuthFile, stored_providers
from hermes.util.text import many

PREFIXED = {
    "sk-": 20,
    "sk-or-v1-": 40,
    "sk-ant-": 40,
    "ghp_": 36,
    "hf_": 30,
    "gsk_": 40,
    "xai-": 40,
}
"""The least length of keys that begin like this; the longest beginning that fits counts."""

_PLACEHOLDER = re.compile(
    r"(?i)your[-_ ]?.*(key|token)|<.*>|change[-_ ]?me|x{4,}|\.{3}|todo|example.*"
)
_MASKED = re.compile(r"\*{3,}|…|\.\.\.")


def config(scene: Scene) -> Found:
    home = scene.home
    if not home.config_file.exists():
        return [fine("there is no config.yaml: every setting has its default")]
    try:
        loaded = examine(home)
    except ConfigError as error:
        return [problem(str(error), error.hint or "`hermes config edit` opens it")]
    found = [
        problem(describe(each), "`hermes config edit` opens the file")
        if each.severity == "error"
        else warning(describe(each), "correct it with `hermes config edit`")
        for each in loaded.problems
    ]
    for move in loaded.moves:
        text = f"config.yaml has an older form: {move.text}"
        found.append(warning(text, "`hermes config migrate` rewrites it"))
    if loaded.moves:  # one rewriting mends them all
        found[-1] = warning(found[-1].text, found[-1].advice, lambda: _migrate(home))
    return found or [fine(f"{tilde(home.config_file)} has no mistakes")]


def _migrate(home: Home) -> str:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = home.config_file.with_name(f"config.yaml.{stamp}.bak")
    done = edit.migrate(home, backup)
    return f"{'; '.join(done)}; the old file is {tilde(backup)}"


def variables(scene: Scene) -> Found:
    path = scene.home.env_file
    if not path.exists():
        return [fine("there is no .env")]
    pieces = dotenv.parse(dotenv.read_text(path))
    found = [
        *_syntax(pieces, tilde(path)),
        *_keys(pieces),
        *_differences(pieces, scene.environment),
    ]
    return found or [
        fine(f"{tilde(path)} holds {many(len(dotenv.values(pieces, {})), 'variable')}")
    ]


def _syntax(pieces: list[dotenv.Piece], file: str) -> Iterator[Finding]:
    line, first = 1, dict[str, str]()
    for piece in pieces:
        where, line = f"{file}:{line}", line + len(piece.text.splitlines())
        text = piece.text.strip()
        if not piece.name and text and not text.startswith("#"):
            yield problem(f"{where}: this line is not understood", "write it as NAME=value")
        elif piece.name and piece.value is None:
            yield warning(f"{where}: {piece.name} has no value", f"write {piece.name}=value")
        elif piece.name and first.setdefault(piece.name, piece.value or "") != piece.value:
            text = f"{where}: {piece.name} is set a second time, and that counts"
            yield warning(text, "delete one of the two lines")


def _keys(pieces: list[dotenv.Piece]) -> Iterator[Finding]:
    for name, value in dotenv.values(pieces, {}).items():
        if is_secret_variable(name) and (doubt := doubt_of(value)):
            yield warning(f"{name} {doubt}", f"copy it again: hermes config set {name} KEY")


def doubt_of(value: str) -> str:
    """What speaks against a key; empty when nothing does."""
    stripped = value.strip()
    if not stripped:
        return ""
    if stripped[0] in "\"'" or stripped[-1] in "\"'":
        return "has quotes in it"
    if any(sign.isspace() for sign in value):
        return "has blanks in it"
    if _MASKED.search(value):
        return "is a masked key, not the key itself"
    if _PLACEHOLDER.fullmatch(value):
        return "is a placeholder, not a key"
    return _too_short(value)


def _too_short(value: str) -> str:
    beginnings = [each for each in PREFIXED if value.startswith(each)]
    least = PREFIXED[max(beginnings, key=len)] if beginnings else 0
    return f"has only {len(value)} characters: it looks cut off" if len(value) < least else ""


def _differences(pieces: list[dotenv.Piece], environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, value in dotenv.values(pieces, environ).items():
        given = environ.get(name)
        if value and given and given != value:
            text = f"{name} is something else in the environment; that of .env counts"
            yield warning(text, f"`unset {name}`, or `hermes config unset {name}`")


def logins(scene: Scene) -> Found:
    data = AuthFile(scene.home.auth_file).read()  # raises ConfigError with a hint
    if not scene.home.auth_file.exists():
        return [fine("there is no auth.json: no key was added with `hermes auth`")]
    names = ", ".join(sorted(stored_providers(data))) or "nobody"
    return [fine(f"auth.json holds keys or logins of {names}")]
