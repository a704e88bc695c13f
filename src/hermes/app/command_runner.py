"""From what was typed behind `/` to what is done."""

import asyncio
import logging
from collections.abc import Mapping
from difflib import get_close_matches

from hermes.app import command_handlers
from hermes.app.commands import (
    COMMAND_REGISTRY,
    CommandCall,
    CommandContext,
    CommandDef,
    CommandHandler,
    Surface,
    command_by_prefix,
    commands_in,
    exact_command,
)
from hermes.app.extensions import SlashCommand
from hermes.config.environment import child_environment
from hermes.config.settings import QuickCommand
from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import User
from hermes.skills.loader import hidden_command_reason
from hermes.util.concurrency import in_thread
from hermes.util.processes import end_group, start_program
from hermes.util.text import clean

log = logging.getLogger(__name__)

QUICK_TIMEOUT = 30.0
MAX_OUTPUT = 20_000

SHARED: dict[str, CommandHandler] = {
    "new": command_handlers.new,
    "retry": command_handlers.retry,
    "undo": command_handlers.undo,
    "title": command_handlers.title,
    "compress": command_handlers.compress,
    "rollback": command_handlers.rollback,
    "stop": command_handlers.stop,
    "queue": command_handlers.queue,
    "steer": command_handlers.steer,
    "resume": command_handlers.resume,
    "branch": command_handlers.branch,
    "background": command_handlers.background,
    "agents": command_handlers.agents,
    "btw": command_handlers.btw,
    "model": command_handlers.model,
    "reasoning": command_handlers.reasoning,
    "personality": command_handlers.personality,
    "fast": command_handlers.fast,
    "yolo": command_handlers.yolo,
    "reload": command_handlers.reload,
    "reload-mcp": command_handlers.reload_mcp,
    "help": command_handlers.help_,
    "status": command_handlers.status,
    "usage": command_handlers.usage,
    "profile": command_handlers.profile,
    "toolsets": command_handlers.toolsets,
}
"""Handlers of the commands that every surface has. A surface adds its own and `OPS_HANDLERS`."""

FoundCommand = CommandDef | SlashCommand | QuickCommand | str | User
"""A command of ours, of a plugin, or of the settings (to run, or words to say); or what a skill
that was called says to the agent."""


class Commands:
    """Finds and does what was asked for in one conversation."""

    def __init__(
        self, talk: CommandContext, own: Mapping[str, CommandHandler] | None = None
    ) -> None:
        """`own` are those of the surface; they stand before the shared ones."""
        self._talk = talk
        self._handlers = {**SHARED, **(own or {})}

    async def _explain_unknown(self, text: str, word: str) -> str:
        skills = self._talk.app.session(self._talk.agent).skills
        reason = await in_thread(hidden_command_reason, text, skills.catalog.skills, skills.context)
        known = commands_in(self._talk.place, self._talk.app.loaded.settings)
        names = [f"/{name}" for each in known for name in each.names]
        close = get_close_matches(word.lower(), names, n=1)
        meant = f" Did you mean `{close[0]}`?" if close else ""
        return reason or f"There is no command `{word}`.{meant} `/help` lists them."

    async def find(self, text: str) -> FoundCommand | None:
        """What a line that begins with `/` means. Names win over beginnings of names."""
        name = text.split(None, 1)[0].lower()
        place, settings = self._talk.place, self._talk.app.loaded.settings
        return (
            exact_command(name, place, settings)
            or self._talk.app.extensions.commands.get(name.removeprefix("/"))
            or settings.quick_commands.get(name.removeprefix("/"))
            or await self._talk.app.skill_message(self._talk.agent, text)
            or command_by_prefix(name, place, settings)
        )

    async def run(self, text: str) -> bool:
        """Do it and show the answer; False when it is no command and so perhaps a message. What
        fails is shown. A command that must wait for the end of the turn is kept for then."""
        arguments = text.partition(" ")[2].strip()
        try:
            found = await self.find(text)
            if found is None:
                word = text.split(None, 1)[0]
                # `/etc/hosts is empty` and `//` are messages, not commands.
                if "/" in word[1:] or not word[1:2].isalpha():
                    return False
                self._talk.show(await self._explain_unknown(text, word))
                return True
            if self._talk.busy and not (isinstance(found, CommandDef) and found.at_once):
                self._talk.later(text)
                self._talk.show(f"`{text.split()[0]}` comes after this turn; `/stop` ends it.")
                return True
            answer = await self.do(found, arguments)
        except HermesError as error:
            answer = f"{error}\n\n{error.hint}" if error.hint else str(error)
        if answer.strip():
            self._talk.show(answer)
        return True

    async def do(self, found: FoundCommand, arguments: str) -> str:
        """What to show of it."""
        match found:
            case CommandDef():
                handler = self._handlers.get(found.name)
                if handler is None:
                    raise UsageError(f"/{found.name} does nothing here")
                return await handler(CommandCall(found, arguments, self._talk))
            case SlashCommand():
                return str(await found.handler(arguments) or "")
            case QuickCommand():
                return await run_quick_command(found.command)
            case str():
                await self._talk.ask(User.say(f"{found} {arguments}".strip()))
            case User():
                await self._talk.ask(found)
        return ""


async def run_quick_command(command: str) -> str:
    """The output of a command of the user's settings."""
    process = await start_program(
        "/bin/sh",
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=child_environment(),
    )
    try:
        async with asyncio.timeout(QUICK_TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError:
        raise UsageError(f"the command took more than {QUICK_TIMEOUT:.0f} seconds") from None
    finally:
        if process.returncode is None:
            end_group(process)
            await process.wait()
    text = clean(output.decode(errors="replace")).strip()
    shown = text if len(text) <= MAX_OUTPUT else f"{text[:MAX_OUTPUT]}\n…"
    ended = f"\n\nexit code {process.returncode}" if process.returncode else ""
    return f"```\n{shown}\n```{ended}" if shown else f"no output{ended}"


def unhandled(own: Mapping[str, CommandHandler], place: Surface) -> list[str]:
    """Commands of a place that nothing does; for a test."""
    return [
        each.name
        for each in COMMAND_REGISTRY
        if each.is_in(place) and each.name not in {**SHARED, **own}
    ]
