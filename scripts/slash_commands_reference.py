"""Writes docs/reference/slash-commands.md from the registry of commands; `--check` compares."""

import sys
from collections.abc import Iterator

from generated_page import row, write_or_check

from hermes.app.commands import COMMAND_REGISTRY, CommandDef, CommandGroup, Surface

HEAD = """\
# Slash commands

Written by `make docs` from `hermes.app.commands`; edit that instead.

Type a command at the beginning of a message. Case does not matter, and the beginning of a name is
enough: if several commands begin with it, the first on this page is used. `/help` lists the
commands in the conversation, `/help NAME` explains one, Tab completes names and arguments.

While the agent works, commands marked "at once" run immediately; the others wait for the end of the
turn. Commands marked "terminal" exist only in the terminal, not in other chats.

Hermes looks for a name among these commands, then those of [plugins](../guide/plugins.md), then
your own (`quick_commands`, below), then your [skills](../guide/skills.md), and finally among the
beginnings of names. Text that begins with `/` and looks like a path is a message.
"""

QUICK = """
## Your own

`quick_commands` in config.yaml gives a name to a shell command or to a prompt. The output of the
command is shown to you, not to the model; it may run for 30 seconds. The prompt is sent to the
agent:

```yaml
quick_commands:
  disk: {type: exec, command: df -h /}
  review: "Look at @diff as a strict reviewer would. Name the three worst problems."
```

`/review but only the tests` sends the prompt followed by the rest of the line.
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
