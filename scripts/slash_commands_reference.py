"""Writes docs/reference/slash-commands.md from the registry of commands; `--check` compares."""

import sys
from collections.abc import Iterator

from generated_page import row, write_or_check

from hermes.app.commands import COMMAND_REGISTRY, CommandDef, CommandGroup, Surface

HEAD = """\
# Slash commands

Written by `make docs` from `hermes.app.commands`; edit that instead.

Typed at the beginning of a message. Capitals do not matter, and the beginning of a name is enough:
of several commands that begin so, the first of this page is meant. `/help` lists them in the
conversation, `/help NAME` explains one, Tab completes names and what may follow them.

While the agent works, those marked "at once" are carried out beside it; the others wait for the
end of the turn. "terminal" marks what makes sense in a terminal only, not in other chats.

A name is looked for among these commands, then those of [plugins](../guide/plugins.md), then your
own (`quick_commands`, below), then your [skills](../guide/skills.md), and last among the beginnings
of names. What begins with `/` and looks like a path is a message.
"""

QUICK = """
## Your own

`quick_commands` in config.yaml gives a name to a shell command, whose output you are shown (the
model is not asked, 30 seconds at most), or to words that are said to the agent:

```yaml
quick_commands:
  disk: {type: exec, command: df -h /}
  review: "Look at @diff as a strict reviewer would. Name the three worst problems."
```

`/review but only the tests` sends the words with what follows them.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [HEAD.rstrip()]
    for group in CommandGroup:
        parts += ["", f"## {group}", ""]
        parts += table(command for command in COMMAND_REGISTRY if command.group is group)
    return "\n".join(parts) + "\n" + QUICK


def table(commands: Iterator[CommandDef]) -> Iterator[str]:
    yield row("command", "what it does", "")
    yield row("---", "---", "---")
    for command in commands:
        written = f"`/{command.name} {command.usage}".strip() + "`"
        also = "".join(f", `/{alias}`" for alias in command.aliases)
        yield row(written + also, command.summary, remarks(command))


def remarks(command: CommandDef) -> str:
    place = "" if command.where is Surface.EVERYWHERE else str(command.where)
    if gate := command.gateway_config_gate:
        place += f"; in chats with `{gate}: true`"
    return ", ".join(filter(None, ("at once" if command.at_once else "", place)))


if __name__ == "__main__":
    sys.exit(write_or_check("slash-commands.md", reference))
