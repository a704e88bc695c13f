"""From a draft to the one file that changes. Only decides; writes nothing."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.skills.history.files import reachable
from hermes.skills.names import plain_name
from hermes.skills.skill import SKILL_DIRECTORY, SKILL_FILE, Skill, SkillNotFound, Source
from hermes.skills.writing.drafts import (
    MOST_CATEGORIES,
    Action,
    Catalogue,
    ChangeRefused,
    Draft,
    Limits,
    check_category,
    check_name,
    linked_path,
)
from hermes.skills.writing.overlays import Overlay, copy_called, files_of, overlay_of
from hermes.skills.writing.texts import check_text, replaced

SWITCH_OFF = "to have it out of the way, the user adds it to `skills.disabled` in config.yaml"


class Plan(msgspec.Struct, frozen=True):
    """`file` of the skill becomes `after`. An empty `file` is the whole folder, which goes away."""

    draft: Draft
    name: str
    """Of the skill, as it is listed."""
    target: Path
    """The folder of the skill once it is done."""
    original: Skill | None
    """What is copied to `target` first."""
    file: str
    before: bytes | None = None
    after: bytes | None = None


class Planner:
    def __init__(self, home: Path, catalogue: Catalogue, limits: Limits) -> None:
        """`home` is `<home>/skills`."""
        self._home, self._catalogue, self._limits = home, catalogue, limits

    def plan(self, draft: Draft) -> Plan:
        """Raises `ChangeRefused`, and `SkillNotFound`."""
        match draft.action:
            case Action.CREATE:
                return self._create(draft)
            case Action.DELETE:
                return self._delete(draft)
            case Action.PATCH | Action.EDIT | Action.WRITE_FILE | Action.REMOVE_FILE:
                return self._change(draft)

    def own(self, name: str) -> Skill:
        """A skill that may be moved or deleted."""
        skill = self._catalogue.get(name)
        if not skill.is_own:
            raise ChangeRefused(f"{skill.name} is {_whose(skill)}, and stays", hint=SWITCH_OFF)
        if overlay_of(skill.folder) is not None:
            raise ChangeRefused(
                f"{skill.name} is a changed copy of a skill that stays",
                hint=f"`hermes skills reset {skill.name}` goes back to the original; {SWITCH_OFF}",
            )
        self._check_inside(skill.folder)
        return skill

    def copied(self, name: str) -> tuple[Path, Overlay]:
        """The folder of a changed copy, also of one that does not load any more, and its mark."""
        folder = copy_called(plain_name(name.rpartition("/")[2]), self._home)
        if folder is None:
            skill = self._catalogue.get(name)
            folder = skill.folder if skill.is_own else None
        mark = overlay_of(folder) if folder else None
        if folder is None or mark is None:
            raise ChangeRefused(f"{name} is not a changed copy of another skill")
        self._check_inside(folder)
        return folder, mark

    def _create(self, draft: Draft) -> Plan:
        check_name(draft.name)
        check_category(draft.category)
        try:
            there = self._catalogue.get(draft.name)
        except SkillNotFound:
            there = None
        if there is not None and there.name == draft.name:
            raise ChangeRefused(
                f"there is a skill {draft.name}: {there.description}",
                hint="change it with patch, or take another name",
            )
        target = self._home / draft.category / draft.name
        self._check_free(target)
        return self._text_plan(Plan(draft, draft.name, target, None, SKILL_FILE))

    def _delete(self, draft: Draft) -> Plan:
        skill = self.own(draft.name)
        return Plan(draft, skill.name, skill.folder, None, "")

    def _change(self, draft: Draft) -> Plan:
        skill, target, original = self._found(draft.name)
        file = self._file_of(draft)
        before = self._read(skill.folder, file)
        plan = Plan(draft, skill.name, target, original, file, before)
        if file == SKILL_FILE:
            return self._text_plan(plan)
        if draft.action is Action.WRITE_FILE:
            self._check_count(skill.folder, is_new=before is None)
            after: bytes | None = draft.file_content.encode()
        elif before is None:
            raise ChangeRefused(
                f"{skill.name} has no file {file}", hint="skill_view shows what it has"
            )
        else:
            after = None if draft.action is Action.REMOVE_FILE else _patched(plan, before)
        if after is not None and len(after) > self._limits.file_bytes:
            raise ChangeRefused(
                f"a file of a skill has at most {self._limits.file_bytes:,} bytes",
                hint="keep what is needed, or split it",
            )
        return replace(plan, after=after)

    def _text_plan(self, plan: Plan) -> Plan:
        draft, before = plan.draft, plan.before
        if before is not None and draft.action is Action.PATCH:
            after = _patched(plan, before)
        else:
            after = draft.content.encode()
        text = after.decode()
        if len(text) > self._limits.skill_chars:
            raise ChangeRefused(
                f"{SKILL_FILE} would have {len(text):,} characters, the limit is "
                f"{self._limits.skill_chars:,}",
                hint="move details into files in references/ with write_file",
            )
        check_text(text, plan.name, None if before is None else before.decode("utf-8", "replace"))
        return replace(plan, after=after)

    def _file_of(self, draft: Draft) -> str:
        if draft.action is Action.EDIT:
            return SKILL_FILE
        if draft.action is Action.PATCH and draft.file_path in ("", SKILL_FILE):
            return SKILL_FILE
        return linked_path(draft.file_path)

    def _found(self, name: str) -> tuple[Skill, Path, Skill | None]:
        """The skill, and its `_place`. Another process may make a copy between two looks: what
        stands in the way may be the skill itself, so a refusal is looked at twice."""
        skill = self._catalogue.get(name)
        try:
            return skill, *self._place(skill)
        except ChangeRefused:
            skill = self._catalogue.get(name)
            return skill, *self._place(skill)

    def _place(self, skill: Skill) -> tuple[Path, Skill | None]:
        """Where a change of `skill` is written, and what is copied there first."""
        if skill.is_own:
            self._check_inside(skill.folder)
            return skill.folder, None
        if skill.source is Source.PLUGIN:
            raise ChangeRefused(
                f"{skill.name} is {_whose(skill)}, and stays as it is",
                hint="create a skill of your own with what is to be different",
            )
        parts = [plain_name(part) for part in skill.category.split("/")]
        target = self._home.joinpath(*filter(None, parts[:MOST_CATEGORIES]), skill.name)
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
                raise ChangeRefused(f"{above} is no category", hint="take another category")

    def _check_inside(self, folder: Path) -> None:
        """What a link leads to is somebody else's, and no history keeps it."""
        inside = folder != self._home and self._home in folder.parents
        if not inside or not reachable(
            self._home, f"{folder.relative_to(self._home)}/{SKILL_FILE}"
        ):
            raise ChangeRefused(
                f"{folder} is not a folder of its own below {self._home}",
                hint="change the skill where it really is",
            )

    def _read(self, folder: Path, file: str) -> bytes | None:
        if not reachable(folder, file) or (folder / file).is_symlink():
            raise ChangeRefused(f"{file} is a link or a folder", hint="take another path")
        try:
            return (folder / file).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ChangeRefused(f"{file} cannot be read: {error.strerror}") from error

    def _check_count(self, folder: Path, *, is_new: bool) -> None:
        if is_new and sum(1 for _ in files_of(folder)) >= self._limits.files:
            raise ChangeRefused(
                f"a skill has at most {self._limits.files} files",
                hint="put several into one, or remove some",
            )


def _patched(plan: Plan, before: bytes) -> bytes:
    draft, old, new = plan.draft, plan.draft.old_string, plan.draft.new_string
    try:
        text = before.decode()
    except UnicodeDecodeError as error:
        raise ChangeRefused("it is not UTF-8 text", hint="replace it as a whole") from error
    if old not in text:  # the agent was shown the folder, and copied that
        folder = str(plan.original.folder if plan.original else plan.target)
        old, new = (each.replace(folder, SKILL_DIRECTORY) for each in (old, new))
    return replaced(text, old, new, replace_all=draft.replace_all).encode()


def _whose(skill: Skill) -> str:
    return {
        Source.BUNDLED: "one of those that come with Hermes",
        Source.HUB: "installed from the hub",
        Source.EXTERNAL: "in a folder of `skills.external_dirs`",
        Source.PLUGIN: "brought by a plugin",
        Source.USER: "the user's own",
    }[skill.source]
