"""What a skill needs before it works: variables and credential files.

Values never pass through here: the user is asked by a `SecretAsker`, and programs get the variables
by their names.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hermes.core.ports import SecretAsker
from hermes.security.paths import OWN_FILES
from hermes.skills.skill import CredentialFile, Skill, Variable

Variables = Callable[[str], str | None]
"""The value of a variable of the environment or of .env; None for none."""


class Needs(NamedTuple):
    reasons: tuple[str, ...]
    """What is missing, and how to set it up; on a line each."""
    variables: tuple[str, ...]
    """Those that are set."""
    files: tuple[Path, ...]
    """Those that are there."""


class Setup:
    """Of one session: what the user would not tell once is not asked for again."""

    def __init__(self, home: Path, variables: Variables, asker: SecretAsker | None) -> None:
        self._home, self._variables, self._asker = home, variables, asker
        self._skipped: set[str] = set()

    async def check(self, skill: Skill) -> Needs:
        missing = [each for each in skill.variables if not await self._is_set(each)]
        there: list[Path] = []
        reasons = [_unset(each) for each in missing]
        for each in skill.credential_files:
            path = self._file(each)
            if path is None:
                reasons.append(f"the credential file {each.path} is not one that skills may use")
            elif _is_file(path):
                there.append(path)
            else:
                about = f" ({each.description})" if each.description else ""
                reasons.append(f"the credential file {path} is missing{about}")
        names = {each.name for each in missing}
        given = (each.name for each in skill.variables if each.name not in names)
        return Needs(tuple(reasons), tuple(given), tuple(there))

    async def _is_set(self, variable: Variable) -> bool:
        name = variable.name
        if self._variables(name):
            return True
        if self._asker is None or name in self._skipped:
            return False
        prompt = variable.prompt or f"Value of {name}"
        if await self._asker.ask(name, prompt, variable.help):
            return True
        self._skipped.add(name)
        return False

    def _file(self, credential: CredentialFile) -> Path | None:
        """None for one outside the home, and for our own keys and settings."""
        home = self._home.resolve()
        path = (self._home / credential.path).resolve()
        if not path.is_relative_to(home) or path == home:
            return None
        inside = path.relative_to(home).as_posix()
        own = any(inside == name or inside.startswith(f"{name}/") for name in OWN_FILES)
        return None if own else path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that is closed
        return False


def _unset(variable: Variable) -> str:
    purpose = f" (needed for {variable.required_for})" if variable.required_for else ""
    about = f" {variable.help}" if variable.help else ""
    return (
        f"{variable.name} is not set{purpose}.{about} "
        f"The user sets it with: hermes config set {variable.name} VALUE"
    )
