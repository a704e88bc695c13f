"""Slash commands that send a text to the model: Markdown files of the user or of a project.

A file has optional frontmatter (`description`, `argument-hint`, `model`) and a text, in which
`$ARGUMENTS` and `$1` to `$9` are replaced. Its name is that of the command; a folder is a prefix of
the name (`git/fix.md` is `/git:fix`).
"""

import hashlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes.config.home import Home, tilde
from hermes.core.errors import HermesError
from hermes.prompt import LocalFileTree
from hermes.skills import Placeholders, read_frontmatter
from hermes.util.files import write_text

FOLDERS = (".hermes/commands", ".claude/commands")  #: In a project.
BUNDLED = Path(__file__).with_name("prompts")
MAX_FILES = 500
MAX_CHARS = 100_000
IGNORED_FIELDS = ("allowed-tools", "disable-model-invocation")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")

log = logging.getLogger(__name__)


class PromptCommand(msgspec.Struct, frozen=True):
    name: str  #: Without the slash, in lower case.
    text: str
    source: str = ""  #: The file, as shown to the user.
    description: str = ""
    argument_hint: str = ""
    model: str = ""  #: The model for this command, as `[provider:]model`.
    is_project: bool = False  #: Its text comes from the project, not from the user.
    ignored: tuple[str, ...] = ()  #: Fields of other programs that have no effect here.

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.name}\0{self.text}".encode()).hexdigest()


def fill_arguments(text: str, arguments: str) -> str:
    """Replace the placeholders in `text`; without any, add the arguments at its end."""
    if placeholders := Placeholders.of(text):
        return placeholders.fill(text, arguments).strip()
    between = "\n\n" if "\n" in text.strip() else " "
    return f"{text.strip()}{between}{arguments}".strip()


def find_prompt_commands(home: Home, folder: Path | None) -> dict[str, PromptCommand]:
    """Return the commands of the user and of the project in `folder`, by name.

    Files of the user win over those of the project. None leaves out the project and the files of
    other programs.
    """
    found: dict[str, PromptCommand] = {}
    places = [(home.root / "commands", "")]
    if folder is not None:
        root = next(
            (str(each) for each in (folder, *folder.parents) if (each / ".git").exists()), ""
        )
        projects = dict.fromkeys((str(folder), root or str(folder)))
        places.append((Path.home() / ".claude/commands", ""))
        places += [(Path(each, name), each) for each in projects for name in FOLDERS]
    for place, project in places:
        for command in _read_folder(place, project):
            found.setdefault(command.name, command)
    return found


def bundled_prompt(name: str) -> str:
    """Return the text of a command of Hermes."""
    return read_frontmatter((BUNDLED / f"{name}.md").read_text("utf-8")).body


def _read_folder(place: Path, project: str) -> Iterator[PromptCommand]:
    """Yield the commands in `place`. No file outside of `project` is read, also not through a
    link."""
    tree, paths = LocalFileTree(project), []
    try:
        paths = sorted(place.rglob("*.md"))[:MAX_FILES]
    except OSError as error:
        log.warning("the commands in %s cannot be read: %s", place, error)
    for path in paths:
        parts = [part.lower() for part in path.relative_to(place).with_suffix("").parts]
        text = tree.read(str(path)) if all(map(_NAME.fullmatch, parts)) else None
        if text is None or len(text) > MAX_CHARS:
            log.warning("%s is not a command: its name or its content cannot be used", path)
            continue
        try:
            head = read_frontmatter(text)
        except HermesError as error:
            log.warning("%s is not a command: %s", path, error)
            continue
        if head.body.strip():
            yield _make_command(":".join(parts), path, head.fields, head.body, project)


def _make_command(
    name: str, path: Path, fields: dict[str, object], body: str, project: str
) -> PromptCommand:
    def field(key: str) -> str:
        value = fields.get(key)
        # An unquoted [hint] is a list in YAML.
        texts = [f"[{each}]" for each in value] if isinstance(value, list) else [value]
        return " ".join(str(text) for text in texts if text is not None).strip()

    first = next((line.strip("# ") for line in body.splitlines() if line.strip("# ")), "")
    return PromptCommand(
        name,
        body.strip(),
        str(path.relative_to(project)) if project else tilde(path),
        field("description") or first,
        field("argument-hint"),
        field("model"),
        bool(project),
        tuple(each for each in IGNORED_FIELDS if each in fields),
    )


class SeenCommands:
    """The texts of project commands that were shown to the user, in a file of the home."""

    def __init__(self, home: Home) -> None:
        self._file = home.cache / "project-commands"

    def add(self, command: PromptCommand) -> bool:
        """Remember the text of a command; return False if it was known."""
        try:
            known = self._file.read_text().split()
        except OSError:
            known = []
        if command.digest in known:
            return False
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_text(self._file, "\n".join([*known[-1_000:], command.digest, ""]))
        return True
