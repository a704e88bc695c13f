"""Loading a skill: its instructions as the model gets them, ready to be followed."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hermes.config.environment import child_environment
from hermes.core.ports import SecretAsker
from hermes.security.injection import blocked, scan
from hermes.skills.collection import Skills
from hermes.skills.comments import without_comments
from hermes.skills.folders import THIRD_PARTY
from hermes.skills.linked import linked_files, listing, read_linked
from hermes.skills.reading import instructions
from hermes.skills.settings import settings_block, unset
from hermes.skills.setup import Setup, Variables
from hermes.skills.skill import SKILL_DIRECTORY, SKILL_FILE, Circle, Skill, SkillNotFound
from hermes.skills.usage import Uses
from hermes.skills.visibility import unusable_because
from hermes.util.threads import in_thread

SESSION = "${HERMES_SESSION_ID}"


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Plain values; see `SkillSettings` for those of `skills.*`."""

    home: Path
    """The home folder, below which credential files are."""
    config_file: str
    """config.yaml as it is shown to people, such as `~/.hermes/config.yaml`."""
    circle: Circle
    """What is switched off, and the system this is."""
    config: Mapping[str, Any] = {}
    """`skills.config`."""
    template_vars: bool = True
    inline_shell: bool = False
    inline_shell_timeout: float = 10.0


class LoadedSkill(msgspec.Struct, frozen=True):
    skill: Skill
    text: str
    """For the model, complete."""
    setup_needed: tuple[str, ...] = ()
    """What is missing before it works."""
    linked: tuple[str, ...] = ()
    """Its further files."""
    blocked: bool = False
    """True when the text is withheld because it looks like prompt injection."""


class Carrier(Protocol):
    """Takes what a skill needs to where the session works."""

    def directory(self, skill: Skill) -> str:
        """The folder of the skill, as commands of the session see it."""
        ...

    def give(self, skill: Skill, variables: Sequence[str], files: Sequence[Path]) -> None:
        """From now on programs may see these variables, by name, and these credential files."""
        ...


class NoCarrier:
    """The session works where the skills are, and nothing is given."""

    def directory(self, skill: Skill) -> str:
        return str(skill.folder)

    def give(self, skill: Skill, variables: Sequence[str], files: Sequence[Path]) -> None: ...


class SkillLoader:
    """For one session.

    `variables` looks into the environment and .env; `asker` asks the user, where one is at hand.
    """

    def __init__(
        self,
        skills: Skills,
        options: LoadOptions,
        *,
        variables: Variables,
        session_id: Callable[[], str] = str,
        asker: SecretAsker | None = None,
        carrier: Carrier | None = None,
        uses: Uses | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.skills, self.options = skills, options
        self._setup = Setup(options.home, variables, asker)
        self._session_id, self._carrier = session_id, carrier or NoCarrier()
        self._uses, self._now = uses, now

    async def load(self, name: str, file_path: str = "") -> LoadedSkill:
        """The instructions, or with `file_path` one linked file as it is.

        Raises `SkillNotFound` and `SkillInvalid`.
        """
        skill = await in_thread(self.skills.get, name)
        reason = unusable_because(skill, self.options.circle)
        if reason:
            raise SkillNotFound(
                f"the skill {skill.name!r} cannot be used here: {reason}",
                hint="`hermes skills list` shows what there is",
            )
        if file_path.strip():
            text = await in_thread(read_linked, skill, file_path.strip())
            return self._vetted(skill, file_path.strip(), text) or LoadedSkill(skill, text)
        text = await in_thread(instructions, skill)
        refused = self._vetted(skill, SKILL_FILE, text)
        if refused is not None:
            return refused
        head = import_module("hermes.skills.head").read_head(text)
        loaded = await self._prepared(skill, without_comments(head.body))
        if self._uses is not None:
            await in_thread(self._uses.record, skill.name, self._now())
        return loaded

    def _vetted(self, skill: Skill, file: str, text: str) -> LoadedSkill | None:
        """None when the text may be shown."""
        findings = scan(text) if skill.source in THIRD_PARTY else ()
        if not findings:
            return None
        return LoadedSkill(skill, blocked(f"{skill.name}/{file}", findings), blocked=True)

    async def _prepared(self, skill: Skill, body: str) -> LoadedSkill:
        options = self.options
        needs = await self._setup.check(skill)
        if needs.variables or needs.files:
            self._carrier.give(skill, needs.variables, needs.files)
        reasons = (
            *needs.reasons,
            *(
                f"{each.prompt}: not set. The user sets it with: "
                f"hermes config set skills.config.{each.key} VALUE"
                for each in unset(skill, options.config)
            ),
        )
        directory = self._carrier.directory(skill)
        if options.template_vars:
            body = self._filled(directory, body)
        if options.inline_shell:
            environment = await in_thread(child_environment, needs.variables)
            shell = import_module("hermes.skills.inline_shell")
            place = shell.Shell(skill.folder, environment, options.inline_shell_timeout)
            body = await shell.run_snippets(body, place)
        linked = await in_thread(linked_files, skill.folder)
        parts = (
            f"# Skill: {skill.name}",
            body.strip() or "(It has no instructions.)",
            f"[Skill directory: {directory}]",
            settings_block(skill, options.config, options.config_file),
            _setup_block(reasons),
            _linked_block(skill, linked),
        )
        return LoadedSkill(skill, "\n\n".join(filter(None, parts)), reasons, linked)

    def _filled(self, directory: str, body: str) -> str:
        values = {SKILL_DIRECTORY: directory, SESSION: self._session_id()}
        for variable, value in values.items():
            if value:
                body = body.replace(variable, value)
        return body


def _setup_block(reasons: tuple[str, ...]) -> str:
    return "\n".join(["[Setup needed:", *reasons, "]"]) if reasons else ""


def _linked_block(skill: Skill, linked: tuple[str, ...]) -> str:
    if not linked:
        return ""
    return f"Linked files, read with skill_view({skill.name!r}, file_path):\n{listing(linked)}"
