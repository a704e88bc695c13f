"""`hermes setup NAME`: optional packages, from our own lock files."""

import asyncio
from collections.abc import Iterable
from difflib import get_close_matches

from hermes.app.installation import install_extra
from hermes.cli.context import Cli
from hermes.core.errors import UsageError
from hermes.util.extras import EXTRAS
from hermes.util.text import many


def install(name: str, cli: Cli) -> int:
    installed = asyncio.run(install_extra(name))
    if installed:
        cli.say(f"installed {many(len(installed), 'package')} for {name}: {', '.join(installed)}")
    else:
        cli.say(f"{name} is already installed")
    cli.say(f"next: {EXTRAS[name].next_step}")
    return 0


def unknown(name: str, sections: Iterable[str]) -> UsageError:
    close = get_close_matches(name, [*sections, *EXTRAS], n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "`hermes setup --help` lists them"
    return UsageError(f"there is nothing to set up with the name {name!r}", hint=hint)


def listing() -> str:
    """The lines of `hermes setup --help`."""
    width = max(map(len, EXTRAS))
    return "\n".join(f"  {name:<{width}}  {each.summary}" for name, each in EXTRAS.items())
