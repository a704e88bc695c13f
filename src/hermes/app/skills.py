"""The skills of a process and of its sessions."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.app.workspace import SessionWorkspace
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.errors import ConfigError
from hermes.core.ports import AskSecret
from hermes.core.tool import Tool
from hermes.providers import own_key_variables
from hermes.skills import (
    HUB_FOLDER,
    Author,
    LoadOptions,
    Skill,
    SkillHistory,
    SkillIndex,
    SkillLoader,
    SkillRoot,
    SkillsPrompt,
    SkillUsage,
    Source,
    VisibilityContext,
    bundled_folder,
    canonical_name,
    optional_folder,
    skill_manage_tool,
    skill_view_tool,
    skills_list_tool,
)
from hermes.skills import skill_roots as roots

if TYPE_CHECKING:
    from hermes.skills.writing import SkillWriter

SYSTEMS = {"darwin": "macos", "win32": "windows"}
NO_BUNDLED = ".no-bundled-skills"
MAX_HINTS = 200  #: Names in the working folder that are used for ranking.


def skill_roots(
    loaded: Loaded, home: Home, brought: Sequence[SkillRoot] = ()
) -> tuple[SkillRoot, ...]:
    """Return every folder with skills; `brought` are those of plugins. A file `.no-bundled-skills`
    in the home leaves out those of Hermes."""
    external = external_folders(loaded, home)
    bundled = None if (home.root / NO_BUNDLED).exists() else bundled_folder()
    return roots(home.skills, external=external, plugins=brought, bundled=bundled)


def external_folders(loaded: Loaded, home: Home) -> list[Path]:
    """Return the folders of `skills.external_dirs`; relative ones are in the home.

    An empty entry, which would mean the current folder, is skipped.
    """
    names = filter(None, map(str.strip, loaded.settings.skills.external_dirs))
    expand = os.path.expanduser  # `~` of an unknown user is kept and does not exist
    return [home.root / expand(name) for name in names]


def external_warnings(loaded: Loaded) -> list[str]:
    """Return the problems of `skills.external_dirs`."""
    empty = any(not name.strip() for name in loaded.settings.skills.external_dirs)
    return ["skills.external_dirs has an empty entry, which is left out"] if empty else []


def visibility_context(
    loaded: Loaded, platform: str, tools: Iterable[str] = (), toolsets: Iterable[str] = ()
) -> VisibilityContext:
    """Return the conditions of this machine: system, tools, disabled skills."""
    settings = loaded.settings.skills
    off = (*settings.disabled, *settings.platform_disabled.get(platform, ()))
    system = SYSTEMS.get(sys.platform, "linux")
    return VisibilityContext(
        system, frozenset(tools), frozenset(toolsets), frozenset(map(canonical_name, off))
    )


class SkillCatalog:
    """The skills that all sessions of a process share."""

    def __init__(
        self, loaded: Loaded, home: Home, brought: Sequence[SkillRoot], tell: Callable[[str], None]
    ) -> None:
        self._loaded, self._home, self._tell = loaded, home, tell
        self.settings = loaded.settings
        self.skills = SkillIndex(skill_roots(loaded, home, brought), home.cache / "skills.json")
        for warning in external_warnings(loaded):
            tell(warning)
        self.usage = SkillUsage(home.skills / ".usage.json")
        self._prompt = SkillsPrompt(self.skills, self.usage, home.cache / "skills-prompt.json")
        if (home.skills / HUB_FOLDER).parent.is_dir():
            from hermes.skills.hub import HubStore  # only for homes with hub skills

            try:
                # Finish an update that was killed half-way before the skills are read.
                HubStore(home.skills / HUB_FOLDER.parent).finish_interrupted()
            except ConfigError as error:  # the commands of the hub report it; the skills are usable
                tell(f"{error}; {error.hint}")

    def index(self, context: VisibilityContext, folder: Path | None) -> str:
        """Return the list for the prompt; the files in `folder` influence the ranking."""
        hints: list[str] = []
        if folder is not None:
            hints.append(folder.name)
            with suppress(OSError):
                hints += sorted(path.name for path in folder.iterdir())[:MAX_HINTS]
        return self._prompt.text(context, self.settings.skills.index_chars, time.time(), hints)

    def session(
        self,
        place: SessionWorkspace,
        platform: str,
        session_id: Callable[[], str],
        asker: AskSecret | None,
    ) -> "SessionSkills":
        settings = self.settings.skills
        options = LoadOptions(
            home=self._home.root,
            context=visibility_context(self._loaded, platform),
            config=settings.config,
            template_vars=settings.template_vars,
            inline_shell=settings.inline_shell,
            inline_shell_timeout=settings.inline_shell_timeout,
        )
        loader = SkillLoader(
            self.skills,
            options,
            variables=self._loaded.variable,
            session_id=session_id,
            asker=asker,
            environment=SkillUploader(self._loaded, self._home, place, self._tell),
            usage=self.usage,
        )
        return SessionSkills(self, loader, session_id)

    @cached_property
    def _writer(self) -> "SkillWriter":
        """Shared by all sessions, so that each warning is given once."""
        # Most sessions change no skill.
        from hermes.skills.writing import SkillWriter, WritingOptions, scan_reasons

        folder = self._home.skills
        return SkillWriter(
            folder,
            self.skills,
            SkillHistory(folder, self._tell),
            scan_reasons,
            WritingOptions(review=self._loaded.settings.skills.review),
            self.usage,
        )

    def writing_tool(self, session_id: Callable[[], str], *, review: bool = False) -> Tool:
        """Return the tool `skill_manage`; with `review` for the review after finished work."""
        author = Author.REVIEW if review else Author.AGENT
        proposes = self.settings.skills.review == "ask"
        return skill_manage_tool(lambda: self._writer, session_id, author, proposes=proposes)


class SessionSkills:
    """The skills of one session, which depend on its tools."""

    def __init__(
        self, catalog: SkillCatalog, loader: SkillLoader, session_id: Callable[[], str]
    ) -> None:
        self.catalog, self.loader, self._session_id = catalog, loader, session_id
        self.context = loader.options.context

    def tools(self) -> dict[str, Tool]:
        folder = optional_folder()
        optional = SkillIndex([SkillRoot(folder, Source.BUNDLED)]) if folder else None
        return {
            "skills_list": skills_list_tool(self.catalog.skills, lambda: self.context, optional),
            "skill_view": skill_view_tool(self.loader, optional),
            "skill_manage": self.catalog.writing_tool(self._session_id),
        }


class SkillUploader:
    """Makes the variables and files of a loaded skill available to the session's commands."""

    def __init__(
        self, loaded: Loaded, home: Home, place: SessionWorkspace, tell: Callable[[str], None]
    ) -> None:
        self._loaded, self._home, self._place, self._tell = loaded, home, place, tell
        self._refused: set[str] = set()

    def directory(self, skill: Skill) -> str:
        """Return the folder of the skill as seen by the session's commands."""
        bring = self._place.workplace.upload
        if bring is None:
            return str(skill.folder)
        # Not below ~/.hermes: the other machine may have its own Hermes.
        there = f".cache/hermes/skills/{skill.name.replace(':', '-')}"
        bring(skill.folder, f"~/{there}")
        return f"$HOME/{there}"

    def provide(self, skill: Skill, variables: Sequence[str], files: Sequence[Path]) -> None:
        """Export the variables that the skill may use and upload its credential files."""
        values = {
            name: value
            for name in variables
            if self._may_use(skill, name) and (value := self._loaded.variable(name))
        }
        self._place.workplace.export(values)
        if (bring := self._place.workplace.upload) is not None:
            for file in files:
                inside = file.relative_to(self._home.root.resolve())
                bring(file, f"~/.hermes/{inside}", private=True)

    def _may_use(self, skill: Skill, name: str) -> bool:
        """Return whether the skill may use the variable. Untrusted skills never get model keys."""
        if skill.source in (Source.USER, Source.BUNDLED) or name not in own_key_variables():
            return True
        if name in self._loaded.settings.terminal.env_passthrough:
            return True
        if name not in self._refused:
            self._refused.add(name)
            self._tell(
                f"The skill {skill.name} asks for {name}, a key of Hermes itself, and does not get "
                f"it. If you want that: hermes config set terminal.env_passthrough '[{name}]'"
            )
        return False
