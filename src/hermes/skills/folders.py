"""Which folders hold skills, in the order in which they count."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

import hermes
from hermes.skills.skill import SKILL_FILE, Root, Source

HUB = Path(".hub", "skills")
"""Below the user's skills: what was installed."""

THIRD_PARTY = frozenset({Source.HUB, Source.EXTERNAL})
"""Written by strangers: what they say is looked at before it reaches a prompt."""


def roots(
    own: Path,
    *,
    external: Iterable[Path] = (),
    plugins: Iterable[Root] = (),
    bundled: Path | None = None,
) -> tuple[Root, ...]:
    """`own` is `<home>/skills`, `external` are the folders of `skills.external_dirs` with `~` and
    variables replaced, `plugins` the folders or SKILL.md that plugins registered.
    A folder that is named twice counts where it is named first."""
    found = [
        Root(own, Source.USER),
        Root(own / HUB, Source.HUB),
        *(Root(path, Source.EXTERNAL) for path in external),
        *(replace(each, path=_folder(each.path)) for each in plugins),
        *([Root(bundled, Source.BUNDLED)] if bundled else []),
    ]
    by_path: dict[Path, Root] = {}
    for root in found:
        path = root.path.absolute()
        by_path.setdefault(path, replace(root, path=path))
    return tuple(by_path.values())


def bundled_folder() -> Path | None:
    """The skills that come with Hermes; None when there are none."""
    return _shipped("skills")


def optional_folder() -> Path | None:
    """Further skills that come with Hermes, for `hermes skills install`."""
    return _shipped("optional-skills")


def _shipped(name: str) -> Path | None:
    """In the installed package, or in the checkout above its sources."""
    package = Path(hermes.__file__).parent
    places = (package / "bundled" / name, package.parent.parent / name)
    return next((place for place in places if place.is_dir()), None)


def _folder(path: Path) -> Path:
    return path.parent if path.name == SKILL_FILE else path
