"""Work with a folder of Markdown notes, such as an Obsidian vault.

  notes.py --vault ~/notes search tea "green leaves" --tag drinks
  notes.py --vault ~/notes new "Tea ceremony" --tags drinks,japan --text "See [[Tea]]."
  notes.py --vault ~/notes daily --text "- called the plumber"
  notes.py --vault ~/notes links Tea            (what it links to, what links to it)
  notes.py --vault ~/notes check                (links that lead nowhere, notes nobody links to)
  notes.py --vault ~/notes rename Tea "Green tea" --write
  notes.py --vault ~/notes tags

Hidden folders (.obsidian, .trash) are left alone.
Exit code: 0 done, 1 nothing found or broken links, 2 an error.
"""
# ruff: noqa: T201, DTZ011 - prints its answer; a daily note belongs to the day of the user

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import unquote

WIKI = re.compile(r"(!?)\[\[([^\]|#^\n]*)([#^][^\]|\n]*)?(\|[^\]\n]*)?\]\]")
INLINE = re.compile(r"(!?)\[([^\]\n]*)\]\(<?([^)>\s]+?)>?(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
HEAD = re.compile(r"\A---\r?\n(.*?)\n---\r?\n", re.DOTALL)
TAG = re.compile(r"(?<![\w/#&])#([A-Za-zÀ-ž_][\w/À-ž-]*)")
FORBIDDEN = re.compile(r'[\\/:*?"<>|#^\[\]]')
WIDEST = 160


class Problem(Exception):
    """Something the user has to correct."""


def without_code(text: str) -> str:
    """Code replaced by blanks, so that places and lines stay the same."""
    return FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def read(file: Path) -> str:
    """The text as it is, so that writing it changes no other byte."""
    return file.read_bytes().decode("utf-8", "surrogateescape")


def write(file: Path, text: str) -> None:
    file.write_bytes(text.encode("utf-8", "surrogateescape"))


class Vault:
    """The notes of one folder, by path from its root."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise Problem(f"there is no folder {root}; give it with --vault")
        self.root = root.resolve()
        self.texts: dict[str, str] = {}
        self.files: set[str] = set()
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(files):
                path = Path(folder, name)
                inside = path.relative_to(self.root).as_posix()
                self.files.add(inside)
                if name.endswith(".md"):
                    self.texts[inside] = read(path)
        self._by_name: dict[str, str] = {}
        for inside in sorted(self.files, key=lambda path: (path.count("/"), path), reverse=True):
            self._by_name[inside.rpartition("/")[2].lower()] = inside
            self._by_name[inside.lower()] = inside

    def find(self, name: str) -> str:
        """The path of a note by name, title or path; "" when there is none."""
        low = name.strip().lower().removeprefix("./")
        return self._by_name.get(f"{low}.md") or self._by_name.get(low, "")

    def need(self, name: str) -> str:
        found = self.find(name)
        if not found:
            raise Problem(f"there is no note {name!r}; look with: search")
        return found

    def place(self, folder: str, name: str) -> Path:
        """The file of a note that is to be written."""
        if FORBIDDEN.search(name) or not name or name.startswith("."):
            raise Problem(
                f'{name!r} cannot be the name of a note: leave out \\ / : * ? " < > | # ^ [ ]'
            )
        file = (self.root / folder / f"{name}.md").resolve()
        if not file.is_relative_to(self.root):
            raise Problem("the folder lies outside the vault")
        return file

    def links(self, note: str) -> Iterator[tuple[int, str]]:
        """Line and target of each link, targets as they are written."""
        text = without_code(self.texts[note])
        for found in WIKI.finditer(text):
            if found[2].strip():
                yield text.count("\n", 0, found.start()) + 1, found[2].strip()
        for found in INLINE.finditer(text):
            target = unquote(found[3]).partition("#")[0]
            if target and "://" not in target and not target.startswith(("mailto:", "obsidian:")):
                yield text.count("\n", 0, found.start()) + 1, self.relative(note, target)

    def relative(self, note: str, target: str) -> str:
        beside = os.path.normpath(os.path.join(os.path.dirname(note), target))  # noqa: PTH118, PTH120 - texts
        return Path(beside).as_posix() if self.find(Path(beside).as_posix()) else target

    def tags(self, note: str) -> set[str]:
        text = self.texts[note]
        head = HEAD.match(text)
        found = set(TAG.findall(without_code(text[head.end() :] if head else text)))
        listed = (
            re.search(r"^tags:[ ]*(.*(?:\n[ ]*- .*)*)", head[1], re.MULTILINE) if head else None
        )
        if listed:
            found |= set(re.findall(r"[\w/À-ž][\w/À-ž-]*", listed[1]))
        return {tag.lower() for tag in found}


def search(vault: Vault, options: argparse.Namespace) -> int:
    wanted = [word.lower() for word in options.words]
    tag = options.tag.lower().lstrip("#")
    found = []
    for note, text in vault.texts.items():
        low = f"{note}\n{text}".lower()
        tagged = not tag or any(t == tag or t.startswith(f"{tag}/") for t in vault.tags(note))
        if tagged and all(word in low for word in wanted):
            named = sum(word in note.lower() for word in wanted)
            found.append((-named, -sum(map(low.count, wanted)), note))
    for _, _, note in sorted(found)[: options.max]:
        print(note)
        rows = enumerate(vault.texts[note].splitlines(), 1)
        hits = [(n, row) for n, row in rows if any(word in row.lower() for word in wanted)]
        for number, row in hits[:3]:
            print(f"  {number}: {row.strip()[:WIDEST]}")
    print(f"{len(found)} notes", file=sys.stderr)
    return 0 if found else 1


def new(vault: Vault, options: argparse.Namespace) -> int:
    title = options.title.strip()
    file = vault.place(options.folder, title)
    if vault.find(title):
        raise Problem(f"the note {vault.find(title)} is there already; add to it instead")
    tags = [tag.strip().lstrip("#") for tag in options.tags.split(",") if tag.strip()]
    tagged = f"tags: [{', '.join(tags)}]\n" if tags else ""
    head = f"---\ncreated: {date.today()}\n{tagged}---\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, f"{head}# {title}\n\n{body(options)}")
    print(file.relative_to(vault.root).as_posix())
    return 0


def body(options: argparse.Namespace) -> str:
    given = sys.stdin.buffer.read().decode("utf-8", "replace") if options.text == "-" else None
    text = options.text if given is None else given
    return text.rstrip() + "\n" if text.strip() else ""


def daily(vault: Vault, options: argparse.Namespace) -> int:
    day = options.day or date.today().isoformat()
    file = vault.place(options.folder, day)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = read(file) if file.exists() else f"# {day}\n\n"
    gap = "" if before.endswith("\n") else "\n"
    end = "\r\n" if "\r\n" in before else "\n"
    write(file, before + (gap + body(options)).replace("\n", end))
    print(file.relative_to(vault.root).as_posix())
    return 0


def links(vault: Vault, options: argparse.Namespace) -> int:
    note = vault.need(options.note)
    for line, target in vault.links(note):
        print(f"-> {vault.find(target) or target + ' (missing)'}  line {line}")
    for other in vault.texts:
        for line, target in vault.links(other):
            if other != note and vault.find(target) == note:
                print(f"<- {other}  line {line}")
    return 0


def check(vault: Vault, options: argparse.Namespace) -> int:
    broken, linked = 0, set()
    for note in vault.texts:
        for line, target in vault.links(note):
            found = vault.find(target)
            linked.add(found)
            if not found:
                broken += 1
                print(f"{note}:{line}: no note {target!r}")
    alone = sorted(set(vault.texts) - linked)
    print(f"{broken} broken links; {len(alone)} of {len(vault.texts)} notes nobody links to")
    if options.alone:
        print("\n".join(alone))
    return 1 if broken else 0


def rename(vault: Vault, options: argparse.Namespace) -> int:
    old, title = vault.need(options.note), options.title.strip()
    if vault.find(title):
        raise Problem(f"the note {vault.find(title)} is there already")
    file = vault.place(Path(old).parent.as_posix(), title)
    target = file.relative_to(vault.root).as_posix()

    def wiki(found: re.Match[str]) -> str:
        if vault.find(found[2]) != old:
            return found[0]
        folder = found[2].rpartition("/")[0]
        name = f"{folder}/{title}" if folder else title
        return f"{found[1]}[[{name}{found[3] or ''}{found[4] or ''}]]"

    for note, text in vault.texts.items():
        changed = WIKI.sub(wiki, text)
        if changed != text:
            print(f"{'changed' if options.write else 'would change'} {note}")
            if options.write:
                write(vault.root / note, changed)
        if any(
            vault.find(vault.relative(note, unquote(m[3]))) == old for m in INLINE.finditer(text)
        ):
            print(f"by hand: {note} has a Markdown link to it")
    if options.write:
        (vault.root / old).rename(vault.root / target)
    print(f"{'renamed' if options.write else 'would rename'} {old} to {target}")
    return 0


def tags(vault: Vault, _: argparse.Namespace) -> int:
    count = Counter(tag for note in vault.texts for tag in vault.tags(note))
    for tag, number in sorted(count.items(), key=lambda item: (-item[1], item[0])):
        print(f"{number:4} {tag}")
    return 0 if count else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vault", type=Path, required=True, help="the folder of the notes")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: object, text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text)
        made.set_defaults(run=run)
        return made

    it = action("search", search, "notes with all these words")
    it.add_argument("words", nargs="*")
    it.add_argument("--tag", default="")
    it.add_argument("--max", type=int, default=20)
    it = action("new", new, "a new note")
    it.add_argument("title")
    it.add_argument("--folder", default="")
    it.add_argument("--tags", default="")
    it.add_argument("--text", default="", help="- reads standard input")
    it = action("daily", daily, "add to the note of a day")
    it.add_argument("--day", help="YYYY-MM-DD, today when left out")
    it.add_argument("--folder", default="")
    it.add_argument("--text", default="", help="- reads standard input")
    action("links", links, "links from and to a note").add_argument("note")
    action("check", check, "broken links").add_argument("--alone", action="store_true")
    it = action("rename", rename, "rename and correct the links; only shown without --write")
    it.add_argument("note")
    it.add_argument("title")
    it.add_argument("--write", action="store_true")
    action("tags", tags, "tags and how often they occur")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        return int(options.run(Vault(options.vault.expanduser()), options))
    except BrokenPipeError:
        raise
    except (Problem, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
