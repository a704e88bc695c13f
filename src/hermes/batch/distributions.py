"""Toolset distributions: how likely each toolset is for a prompt.

The toolsets of a prompt are drawn independently of each other, and at least one is drawn. The
shipped distributions are in `distributions.json`; users write their own in a YAML or JSON file.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

from hermes.core.errors import UsageError
from hermes.tools import TOOLSETS, all_toolsets, expand
from hermes.util.yaml_loader import load_yaml

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]

SUBAGENTS = "delegate_task"
"""The tool that no distribution may have: calls of subagents are not part of the trajectory."""


class Distribution(msgspec.Struct, frozen=True):
    name: str
    description: str
    toolsets: dict[str, Percent]  #: The probability of each toolset.

    def sample(self, rng: random.Random) -> tuple[str, ...]:
        """Draw toolsets, at least one. Equal states of `rng` give equal results."""
        drawn = tuple(
            name for name, percent in self.toolsets.items() if rng.random() * 100 < percent
        )
        if drawn:
            return drawn
        return tuple(rng.choices(list(self.toolsets), list(self.toolsets.values())))


@cache
def list_distributions() -> dict[str, Distribution]:
    """Return the shipped distributions by name."""
    data = Path(__file__).with_name("distributions.json").read_bytes()
    shipped = msgspec.json.decode(data, type=dict[str, tuple[str, dict[str, Percent]]])
    return {name: Distribution(name, *fields) for name, fields in shipped.items()}


def find_distribution(name: str) -> Distribution:
    """Return a shipped distribution, or the one in the file `name`. Raises `UsageError`."""
    if found := list_distributions().get(name):
        return found
    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _read_file(path)
    raise UsageError(
        f"there is no distribution {name!r}",
        hint="`hermes batch distributions` lists them; or name a YAML or JSON file",
    )


def sample_toolsets_from_distribution(name: str, seed: int | str | None = None) -> list[str]:
    """Draw toolsets of a distribution, at least one. A seed makes the result repeatable."""
    rng = random.Random(seed)
    return list(find_distribution(name).sample(rng))


class _DistributionFile(msgspec.Struct, forbid_unknown_fields=True):
    toolsets: dict[str, Percent]
    description: str = ""
    name: str = ""


def _read_file(path: Path) -> Distribution:
    try:
        text = path.read_text("utf-8")
        data = json.loads(text) if path.suffix == ".json" else load_yaml(text)
        if isinstance(data, dict) and "toolsets" not in data:
            data = {"toolsets": data}
        given = msgspec.convert(data, _DistributionFile)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        hint = "an example: {description: mostly commands, toolsets: {terminal: 90, web: 20}}"
        raise UsageError(f"{path} is not a distribution: {reason}", hint=hint) from error
    if not any(given.toolsets.values()):
        raise UsageError(f"{path} gives no toolset a probability above 0")
    if SUBAGENTS in expand(given.toolsets, all_toolsets()):
        raise UsageError(
            f"{path} has toolsets with {SUBAGENTS}, whose calls would not be recorded",
            hint=f"choose from: {', '.join(n for n in sorted(TOOLSETS) if n != 'delegation')}",
        )
    return Distribution(given.name or path.stem, given.description, given.toolsets)
