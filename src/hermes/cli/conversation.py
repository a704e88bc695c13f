"""A conversation at the terminal. Imported only when somebody sits there, for its prompt."""

import asyncio
from collections.abc import Awaitable, Callable

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from hermes.agent.agent import Agent
from hermes.cli.render import Renderer
from hermes.cli.style import Style
from hermes.cli.turns import one_turn, stoppable
from hermes.config.home import Home
from hermes.core.errors import HermesError
from hermes.core.events import Event, Notice
from hermes.core.messages import User

GREETING = "Ctrl-C stops a turn, Ctrl-D ends the chat, Alt-Enter starts a new line."
LEAVE = ("/quit", "/exit", "/q")


BROKEN_OFF = "The last turn was broken off and goes on now; what its tools did is not done again."
ROLLBACK, COMPRESS = "/rollback", "/compress"
Rollback = Callable[[str], Awaitable[str]]


async def converse(
    agent: Agent, renderer: Renderer, home: Home, style: Style, rollback: Rollback
) -> int:
    """Turn after turn, until the user leaves. `rollback` answers `/rollback`."""
    home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(home.root / "history")),
        key_bindings=_keys(),
        enable_suspend=True,
    )
    where = f"{agent.models.name} on {agent.models.provider}, session {agent.session_id}"
    print_line = prompt.app.output.write_raw
    print_line(f"{style.bold('Hermes')} {style.dim(where)}\r\n{style.dim(GREETING)}\r\n")
    prompt.app.output.flush()
    unsent = ""
    if agent.broken_off:
        renderer.show(Notice(BROKEN_OFF))
        await one_turn(agent, None, renderer)
    while True:
        try:
            said, unsent, news = await _next(prompt, agent, ANSI(style.accent("› ")), unsent)
        except KeyboardInterrupt:
            unsent = ""
            continue
        except EOFError:
            return 0
        if said is not None and said.text in LEAVE:
            return 0
        if said is None:
            continue
        command, _, arguments = said.text.partition(" ")
        if news:
            renderer.show(Notice(said.text.partition("\n")[0]))
        if command == ROLLBACK:
            renderer.show(Notice(await _answered(rollback, arguments)))
        elif command == COMPRESS:
            with stoppable(agent):
                renderer.show(await _compressed(agent, arguments))
        else:
            await one_turn(agent, said, renderer)


async def _answered(rollback: Rollback, arguments: str) -> str:
    try:
        return await rollback(arguments)
    except HermesError as error:
        return _told(error)


async def _compressed(agent: Agent, focus: str) -> Event:
    try:
        return await agent.compress(focus.strip())
    except HermesError as error:
        return Notice(_told(error))


def _told(error: HermesError) -> str:
    return f"{error}\n  {error.hint}" if error.hint else str(error)


async def _next(
    prompt: PromptSession[str], agent: Agent, mark: ANSI, unsent: str
) -> tuple[User | None, str, bool]:
    """What the user says, or news of a background process with what the user was typing then."""
    typing = asyncio.ensure_future(prompt.prompt_async(mark, default=unsent))
    news = asyncio.ensure_future(agent.notices.wait())
    try:
        await asyncio.wait({typing, news}, return_when=asyncio.FIRST_COMPLETED)
        if not typing.done():
            unsent = prompt.default_buffer.text
            prompt.app.exit(result="")
            await typing
            return agent.notices.take(), unsent, True
        text = (await typing).strip()
        return (User.say(text) if text else None), "", False
    finally:
        news.cancel()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
