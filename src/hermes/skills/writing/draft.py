"""A requested change of a skill, the checks it must pass, and the plan for making it."""

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import itemgetter
from pathlib import Path, PurePosixPath

import msgspec
from msgspec.structs import replace

from hermes.core.errors import UsageError
from hermes.skills.history import Author, is_reachable, walk_files
from hermes.skills.index import SkillIndex
from hermes.skills.parse import (
    MAX_DESCRIPTION_LENGTH,
    MAX_NAME_LENGTH,
    comment_lines,
    parse_skill,
    read_frontmatter,
    read_text_file,
)
from hermes.skills.skill import (
    LINKED_FOLDERS,
    MAX_SKILL_DEPTH,
    OTHER_SKILL_DIRECTORY,
    SKILL_DIRECTORY,
    SKILL_FILE,
    Skill,
    SkillInvalid,
    SkillNotFound,
    SkillRoot,
    Source,
    normalize_name,
)
from hermes.util.files import write_bytes

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_CATEGORY_DEPTH = 2
MAX_PATH_LENGTH = 200


class ChangeRefused(UsageError):
    """Nothing was changed. The hint says what to do instead."""


ContentCheck = Callable[[Mapping[str, bytes]], Sequence[str]]
"""Returns reasons against storing files. A reason does not name a position, because reasons that
already applied to the old content are ignored."""


class DraftAction(StrEnum):
    """The actions of `skill_manage`."""

    CREATE = "create"
    PATCH = "patch"
    EDIT = "edit"
    DELETE = "delete"
    WRITE_FILE = "write_file"
    REMOVE_FILE = "remove_file"


class SkillLimits(msgspec.Struct, frozen=True):
    """Size limits of a skill."""

    skill_chars: int = 100_000  #: Characters of a SKILL.md.
    file_bytes: int = 1_048_576  #: Bytes of any other file.
    files: int = 100  #: Files of one skill.


class SkillDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A requested change, with the parameters of `skill_manage`. Unused fields are empty."""

    action: DraftAction
    name: str
    content: str = ""
    category: str = ""
    old_string: str = ""
    new_string: str = ""
    replace_all: bool = False
    file_path: str = ""
    file_content: str = ""
    reason: str = ""
    session: str = ""
    who: Author = Author.AGENT


def check_name(name: str) -> None:
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise ChangeRefused(
            f"{name!r} cannot be the name of a skill",
            hint=f"lower-case letters, digits and single hyphens, at most {MAX_NAME_LENGTH}, "
            "for example: deploy-blog",
        )


def check_category(category: str) -> None:
    parts = category.split("/") if category else []
    if len(parts) > MAX_CATEGORY_DEPTH or not all(_NAME.fullmatch(part) for part in parts):
        raise ChangeRefused(
            f"{category!r} cannot be a category",
            hint="one or two names, for example: research or devops/containers",
        )


def check_linked_path(path: str) -> str:
    """Return `path` if it is a file in one of the linked folders. Raises `ChangeRefused`."""
    parts = path.split("/")
    plain = path.isprintable() and "\\" not in path and len(path) <= MAX_PATH_LENGTH
    if not plain or any(part.startswith(".") or part != part.strip() or not part for part in parts):
        raise ChangeRefused(
            f"{path!r} cannot be a file of a skill",
            hint="a path below the skill, without hidden names, for example: references/api.md",
        )
    if parts[0] not in LINKED_FOLDERS or len(parts) < 2:
        raise ChangeRefused(
            f"{path!r} is not in {', '.join(f'{each}/' for each in LINKED_FOLDERS)}",
            hint=f"put it into one of them; {SKILL_FILE} is changed with patch or edit",
        )
    return str(PurePosixPath(path))


# Checks and replacements of text

FRONTMATTER_HINT = (
    "begin with\n---\nname: {name}\ndescription: what it does and when to use it\n---"
)


def find_problems(text: str, name: str) -> dict[str, str]:
    """Return what is wrong with the SKILL.md of the skill `name`, with hints."""
    form = FRONTMATTER_HINT.format(name=name)
    try:
        head = read_frontmatter(text)
    except SkillInvalid as error:
        return {str(error): error.hint}
    if not head.fields:
        return {"it has no head": form}
    found = dict.fromkeys(head.warnings, form)
    named, description = head.fields.get("name"), head.fields.get("description")
    if not isinstance(named, str) or normalize_name(named) != name:
        found[f"the name in its head is not {name}"] = f"write `name: {name}`"
    if not isinstance(description, str) or not description.strip():
        found["it has no description"] = form
    elif len(description) > MAX_DESCRIPTION_LENGTH:
        found[f"its description has more than {MAX_DESCRIPTION_LENGTH:,} characters"] = (
            "say in a sentence or two what it does and when to use it"
        )
    if not head.body.strip():
        found["it has no instructions"] = "write them below the head"
    return found


def check_text(text: str, name: str, before: str | None) -> None:
    """Raise `ChangeRefused` for problems of the text that were not there before."""
    known = find_problems(before, name) if before is not None else {}
    for problem, hint in find_problems(text, name).items():
        if problem not in known:
            raise ChangeRefused(f"not kept: {problem}", hint=hint)


def replace_text(text: str, old: str, new: str, *, replace_all: bool) -> str:
    """Replace the only occurrence of `old`, or all of them with `replace_all`.

    If `old` does not occur, whole lines are compared, ignoring spaces and the comments that the
    agent does not see. They must match in exactly one place. Raises `ChangeRefused`.
    """
    if not old.strip():
        raise ChangeRefused("old_string is empty", hint="copy the text to replace from the skill")
    if old == new:
        raise ChangeRefused("old_string and new_string are the same")
    count = text.count(old)
    if count > 1 and not replace_all:
        raise _ambiguous(count)
    if count:
        return text.replace(old, new)
    lines = text.splitlines(keepends=True)
    seen, wanted = _visible_lines(lines), list(_visible_lines(_split_lines(old)).values())
    numbers, keys, size = list(seen), list(seen.values()), len(wanted)
    places = [
        numbers[at : at + size]
        for at in range(len(keys) - size + 1)
        if wanted and keys[at : at + size] == wanted
    ]
    if not places:
        raise ChangeRefused(
            "old_string is not in it", hint="look with skill_view and copy the text exactly"
        )
    if len(places) > 1:
        raise _ambiguous(len(places))
    end = "\r\n" if "\r\n" in text else "\n"
    put = [f"{each}{end}" for each in _split_lines(new)] if new else []
    start, stop = places[0][0], places[0][-1] + 1
    if put and stop == len(lines) and not text.endswith("\n"):
        put[-1] = put[-1].removesuffix(end)
    return "".join((*lines[:start], *put, *lines[stop:]))


def _ambiguous(count: int) -> ChangeRefused:
    return ChangeRefused(
        f"old_string is in it {count} times",
        hint="add lines around it that only the right place has, or set replace_all",
    )


def _split_lines(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def _visible_lines(lines: Sequence[str]) -> dict[int, str]:
    """Return the lines that the agent sees, with normalized spaces, by line number."""
    hidden = comment_lines(lines)
    shown = (pair for pair in enumerate(lines) if pair[0] not in hidden)
    return {number: re.sub(r"\s+", " ", line).strip() for number, line in shown}


# Changed copies of skills that are not changed in place, and the marks of their origin.

MARK_FILE = ".overlay.json"


class SkillOverlay(msgspec.Struct, frozen=True):
    """The mark in the folder of a changed copy."""

    name: str
    source: Source  #: The source of the original.
    hash: str  #: The `content_hash` of the original when it was copied.
    version: str = ""


def read_overlay(folder: Path) -> SkillOverlay | None:
    """Return the mark of a folder, or None when it is not a changed copy."""
    try:
        return parse_mark((folder / MARK_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        return SkillOverlay(folder.name, Source.EXTERNAL, "")


def parse_mark(data: bytes) -> SkillOverlay:
    """Parse a mark file. Raises `msgspec.DecodeError`."""
    return msgspec.json.decode(data, type=SkillOverlay)


def find_copy(name: str, home: Path) -> Path | None:
    """Return the folder below `<home>/skills` with the copy of the skill `name`, or None."""
    for depth in range(1, MAX_SKILL_DEPTH + 1):
        for mark in sorted(home.glob("[!.]*/" * depth + MARK_FILE)):
            overlay = read_overlay(mark.parent)
            if overlay is not None and overlay.name == name:
                return mark.parent
    return None


def content_hash(folder: Path) -> str:
    """Return a hash of the files that does not depend on location, times or system files."""
    total = hashlib.sha256()
    for path in sorted(list_files(folder)):
        inner = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        total.update(f"{inner}  ".encode() + os.fsencode(path) + b"\n")
    return f"sha256:{total.hexdigest()}"


def list_files(folder: Path) -> Iterator[str]:
    """Yield the regular files of a skill as relative paths. Links are skipped: they may lead
    anywhere."""
    for name in walk_files(folder):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.name != MARK_FILE:
            yield name


def copy_skill(skill: Skill, target: Path) -> None:
    """Copy the files of `skill` to the new folder `target` and add the mark."""
    for path in list_files(skill.folder):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(skill.folder / path, target / path)
        mode = (skill.folder / path).stat().st_mode
        (target / path).chmod(0o700 if mode & 0o100 else 0o600)
    mark = SkillOverlay(skill.name, skill.source, content_hash(skill.folder), skill.version)
    write_bytes(target / MARK_FILE, msgspec.json.encode(mark), mode=0o600)


# Plans: which file changes, and to what. Planning writes nothing.

SWITCH_OFF = "to have it out of the way, the user adds it to `skills.disabled` in config.yaml"


class ChangePlan(msgspec.Struct, frozen=True):
    """`file` of the skill becomes `after`. An empty `file` deletes the whole folder."""

    draft: SkillDraft
    name: str  #: The listed name of the skill.
    target: Path  #: The folder of the skill after the change.
    original: Skill | None  #: The skill that is copied to `target` first.
    file: str
    before: bytes | None = None
    after: bytes | None = None


class ChangePlanner:
    """Decides how drafts are carried out."""

    def __init__(self, home: Path, index: SkillIndex, limits: SkillLimits) -> None:
        """`home` is `<home>/skills`."""
        self._home, self._index, self._limits = home, index, limits

    def plan(self, draft: SkillDraft) -> ChangePlan:
        """Raises `ChangeRefused` and `SkillNotFound`."""
        if draft.action is DraftAction.DELETE:
            skill = self.require_own(draft.name)
            return ChangePlan(draft, skill.name, skill.folder, None, "")
        return self._create(draft) if draft.action is DraftAction.CREATE else self._change(draft)

    def require_own(self, name: str) -> Skill:
        """Return a skill that may be moved or deleted. Raises `ChangeRefused`."""
        skill = self._index.get(name)
        if not skill.is_own:
            raise ChangeRefused(
                f"{skill.name} is {_owner_phrase(skill)}, and stays", hint=SWITCH_OFF
            )
        if read_overlay(skill.folder) is not None:
            raise ChangeRefused(
                f"{skill.name} is a changed copy of a skill that stays",
                hint=f"`hermes skills reset {skill.name}` goes back to the original; {SWITCH_OFF}",
            )
        self._check_inside(skill.folder)
        return skill

    def require_copy(self, name: str) -> tuple[Path, SkillOverlay]:
        """Return the folder and mark of a changed copy, even if the copy does not load.

        Raises `ChangeRefused`.
        """
        folder = find_copy(normalize_name(name.rpartition("/")[2]), self._home)
        if folder is None:
            skill = self._index.get(name)
            folder = skill.folder if skill.is_own else None
        mark = read_overlay(folder) if folder else None
        if folder is None or mark is None:
            raise ChangeRefused(f"{name} is not a changed copy of another skill")
        self._check_inside(folder)
        return folder, mark

    def _create(self, draft: SkillDraft) -> ChangePlan:
        check_name(draft.name)
        check_category(draft.category)
        try:
            there = self._index.get(draft.name)
        except SkillNotFound:
            there = None
        if there is not None and there.name == draft.name:
            raise ChangeRefused(
                f"there is a skill {draft.name}: {there.description}",
                hint="change it with patch, or take another name",
            )
        target = self._home / draft.category / draft.name
        self._check_free(target)
        return self._text_plan(ChangePlan(draft, draft.name, target, None, SKILL_FILE))

    def _change(self, draft: SkillDraft) -> ChangePlan:
        skill = self._index.get(draft.name)
        try:
            target, original = self._target_of(skill)
        except ChangeRefused:
            # Another process may have created a copy since the lookup; then the target exists.
            skill = self._index.get(draft.name)
            target, original = self._target_of(skill)
        patched = draft.action is DraftAction.PATCH and draft.file_path in ("", SKILL_FILE)
        whole = patched or draft.action is DraftAction.EDIT
        file = SKILL_FILE if whole else check_linked_path(draft.file_path)
        before = self._read(skill.folder, file)
        plan = ChangePlan(draft, skill.name, target, original, file, before)
        if file == SKILL_FILE:
            return self._text_plan(plan)
        if draft.action is DraftAction.WRITE_FILE:
            if before is None and sum(1 for _ in list_files(skill.folder)) >= self._limits.files:
                raise ChangeRefused(
                    f"a skill has at most {self._limits.files} files",
                    hint="put several into one, or remove some",
                )
            after: bytes | None = draft.file_content.encode()
        elif before is None:
            raise ChangeRefused(
                f"{skill.name} has no file {file}", hint="skill_view shows what it has"
            )
        else:
            after = None if draft.action is DraftAction.REMOVE_FILE else _patch_file(plan, before)
        if after is not None and len(after) > self._limits.file_bytes:
            raise ChangeRefused(
                f"a file of a skill has at most {self._limits.file_bytes:,} bytes",
                hint="keep what is needed, or split it",
            )
        return replace(plan, after=after)

    def _text_plan(self, plan: ChangePlan) -> ChangePlan:
        draft, before = plan.draft, plan.before
        if before is not None and draft.action is DraftAction.PATCH:
            after = _patch_file(plan, before)
        else:
            after = draft.content.encode()
        text = after.decode()
        if len(text) > self._limits.skill_chars:
            raise ChangeRefused(
                f"{SKILL_FILE} would have {len(text):,} characters, the limit is "
                f"{self._limits.skill_chars:,}",
                hint="move details into files in references/ with write_file",
            )
        old = None if before is None else before.decode("utf-8", "replace")
        check_text(text, plan.name, old)
        if draft.who is not Author.USER and old and _is_user_only(old) and not _is_user_only(text):
            raise ChangeRefused(
                "only the user may remove disable-model-invocation", hint="leave it as it is"
            )
        return replace(plan, after=after)

    def _target_of(self, skill: Skill) -> tuple[Path, Skill | None]:
        """Return where a change of `skill` is written, and the skill that is copied there first."""
        if skill.is_own:
            self._check_inside(skill.folder)
            return skill.folder, None
        if skill.source is Source.PLUGIN:
            raise ChangeRefused(
                f"{skill.name} is {_owner_phrase(skill)}, and stays as it is",
                hint="create a skill of your own with what is to be different",
            )
        parts = [normalize_name(part) for part in skill.category.split("/")]
        target = self._home.joinpath(*filter(None, parts[:MAX_CATEGORY_DEPTH]), skill.name)
        self._check_free(target)
        return target, skill

    def _check_free(self, target: Path) -> None:
        if target.exists() or target.is_symlink():
            raise ChangeRefused(
                f"there is something else in {target}", hint="take another name or category"
            )
        for above in target.parents:
            if above == self._home:
                break
            if above.is_symlink() or (above / SKILL_FILE).exists() or above.is_file():
                raise ChangeRefused(f"{above} is not a category", hint="take another category")

    def _check_inside(self, folder: Path) -> None:
        """Refuse folders behind a link: they are not ours, and the history does not record them."""
        inside = folder != self._home and self._home in folder.parents
        if not inside or not is_reachable(
            self._home, f"{folder.relative_to(self._home)}/{SKILL_FILE}"
        ):
            raise ChangeRefused(
                f"{folder} is not a folder of its own below {self._home}",
                hint="change the skill where it really is",
            )

    def _read(self, folder: Path, file: str) -> bytes | None:
        if not is_reachable(folder, file) or (folder / file).is_symlink():
            raise ChangeRefused(f"{file} is a link or a folder", hint="take another path")
        try:
            return (folder / file).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ChangeRefused(f"{file} cannot be read: {error.strerror}") from error


def _patch_file(plan: ChangePlan, before: bytes) -> bytes:
    draft, old, new = plan.draft, plan.draft.old_string, plan.draft.new_string
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise ChangeRefused("it is not UTF-8 text", hint="replace it as a whole") from error
    if old not in text:  # the agent sees the folder instead of the placeholder
        folder = str(plan.original.folder if plan.original else plan.target)
        theirs = OTHER_SKILL_DIRECTORY in text and SKILL_DIRECTORY not in text
        placeholder = OTHER_SKILL_DIRECTORY if theirs else SKILL_DIRECTORY
        old, new = (each.replace(folder, placeholder) for each in (old, new))
    return replace_text(text, old, new, replace_all=draft.replace_all).encode()


def _is_user_only(text: str) -> bool:
    try:
        return parse_skill(text, Path("x"), SkillRoot(Path(), Source.USER), brief=True).is_user_only
    except SkillInvalid:
        return False


def _owner_phrase(skill: Skill) -> str:
    return {
        Source.BUNDLED: "one of those that come with Hermes",
        Source.HUB: "installed from the hub",
        Source.EXTERNAL: "in a folder of `skills.external_dirs`",
        Source.PLUGIN: "brought by a plugin",
        Source.USER: "the user's own",
    }[skill.source]


# Similarity: find an existing skill before a new one is created

SAME_NAME = 88.0  #: Out of 100: the same words in another order, or one letter more.
SIMILAR_NAME = 60.0
SAME_DESCRIPTION = 0.6
SIMILAR_DESCRIPTION = 0.3
SAME_BODY = 0.6  #: Share of common words in the words of both texts.
MIN_WORDS_SIMILAR = 5
"""Fewer words are not compared for similarity; equal texts need `MIN_WORDS_SAME`."""
MIN_WORDS_SAME = 2

_WORD = re.compile(r"[^\W_]{3,}")
_COMMON_WORDS = """
    the and for with when use used uses using this that from into your you are not any all can its
    how what which will one out has have via etc skill user task tasks a an to of in on my
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def most_similar(name: str, text: str, skills: Iterable[Skill]) -> Skill | None:
    """Return the skill that is most similar to a new one, if any is similar enough."""
    head = read_frontmatter(text)
    described = _significant_words(str(head.fields.get("description", "")))
    body_words = _significant_words(head.body)
    shares = [(_similarity(name, described, body_words, each), each) for each in skills]
    share, best = max(shares, key=itemgetter(0), default=(0.0, None))
    return best if share else None


def _similarity(
    name: str, described: frozenset[str], body_words: frozenset[str], skill: Skill
) -> float:
    """Return how similar a skill is to a new one; 0 when it is not similar enough."""
    from rapidfuzz import fuzz  # slow to load, and few sessions create a skill

    named = fuzz.token_sort_ratio(_name_words(name), _name_words(skill.name.rpartition(":")[2]))
    alike = _overlap(described, _significant_words(skill.description))
    close = (
        named >= SAME_NAME
        or alike >= SAME_DESCRIPTION
        or (named >= SIMILAR_NAME and alike >= SIMILAR_DESCRIPTION)
    )
    body = 0.0
    if not close:
        # A skill that cannot be read cannot be patched either.
        with contextlib.suppress(OSError, SkillInvalid):
            other = read_frontmatter(read_text_file(skill.file).text).body
            body = _overlap(body_words, _significant_words(other))
    return named / 100 + alike + body if close or body >= SAME_BODY else 0.0


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    if one == other and len(one) >= MIN_WORDS_SAME:
        return 1.0
    if min(len(one), len(other)) < MIN_WORDS_SIMILAR:
        return 0.0
    return len(one & other) / len(one | other)


def _significant_words(text: str) -> frozenset[str]:
    """Return the words without common ones and without a plural s."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(word.rstrip("s") for word in words if word not in _COMMON)


def _name_words(name: str) -> str:
    """Return the words of a name without common ones, unless there are no others."""
    words = name.split("-")
    return " ".join([word for word in words if word not in _COMMON] or words)
