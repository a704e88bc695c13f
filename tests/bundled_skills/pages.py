"""Reads the skills at the root of the repository: heads, sections, code blocks, files.

Tests run every block of shell for real, see `steps.py`, but those that `untried.toml` names.
"""

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
BUNDLED = REPOSITORY / "skills"
OPTIONAL = REPOSITORY / "optional-skills"
UNTRIED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("untried.toml").read_text(encoding="utf-8")
)
"""By skill: how a block begins, and what it would need."""
SHELLS = ("bash", "sh")

_HEAD = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w-]*)[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence) *$",
    re.DOTALL | re.MULTILINE,
)
_SECTION = re.compile(r"^## +(.+?) *$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of SKILL.md."""

    line: int
    language: str
    text: str
    tried: bool


class Page:
    """One SKILL.md and the folder around it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.parent
        self.root = next(root for root in (BUNDLED, OPTIONAL) if file.is_relative_to(root))
        self.category = self.folder.parent.relative_to(self.root).as_posix()

    def __str__(self) -> str:
        return f"{self.root.name}/{self.category}/{self.folder.name}"

    @cached_property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def head(self) -> dict[str, Any]:
        found = _HEAD.match(self.text)
        assert found, f"{self}: SKILL.md starts with a head between two lines of ---"
        head = yaml.safe_load(found.group(1))
        assert isinstance(head, dict), f"{self}: the head is a mapping"
        return head

    @property
    def extension(self) -> dict[str, Any]:
        """What stands under `metadata.hermes`."""
        return dict(self.head.get("metadata", {}).get("hermes", {}))

    @cached_property
    def body(self) -> str:
        found = _HEAD.match(self.text)
        assert found, f"{self}: SKILL.md has a head"
        return found.group(2)

    @cached_property
    def blocks(self) -> list[Block]:
        return [self._block(found) for found in _FENCE.finditer(self.text)]

    def _block(self, found: re.Match[str]) -> Block:
        indent = len(found["indent"])
        text = "\n".join(line[indent:] for line in found["text"].splitlines()) + "\n"
        untried = tuple(UNTRIED.get(self.folder.name, ()))
        return Block(
            line=self.text.count("\n", 0, found.start()) + 2,
            language=found["language"],
            text=text,
            tried=found["language"] in SHELLS and not text.startswith(untried),
        )

    @property
    def tried(self) -> list[Block]:
        return [block for block in self.blocks if block.tried]

    @property
    def sections(self) -> list[str]:
        """The headings of the second level, outside of code blocks."""
        return _SECTION.findall(_FENCE.sub("", self.body))

    @property
    def files(self) -> list[Path]:
        """Return everything in the folder except SKILL.md."""
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [path for path in found if path != self.file and "__pycache__" not in path.parts]

    @property
    def scripts(self) -> list[Path]:
        """Return the Python files that are run as they are; templates are copied first."""
        python = [path for path in self.files if path.suffix == ".py"]
        return [path for path in python if path.parent.name != "templates"]


def pages(*roots: Path) -> list[Page]:
    """Every skill of these folders, of all of them when none is named."""
    files = (file for root in roots or (BUNDLED, OPTIONAL) for file in root.rglob("SKILL.md"))
    return [Page(file) for file in sorted(files)]


@cache
def page(name: str) -> Page:
    """The skill with this name."""
    return next(page for page in pages() if page.folder.name == name)


def script(path: str) -> Path:
    """A script by skill and file name, such as `log-analysis/log_summary.py`."""
    skill, _, file = path.partition("/")
    return page(skill).folder / "scripts" / file
