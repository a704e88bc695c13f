"""A conversation at the terminal. Imported only when somebody sits there, for its prompt."""

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from hermes.agent.agent import Agent
from hermes.cli.render import Renderer
from hermes.cli.style import Style
from hermes.cli.turns import one_turn
from hermes.config.home import Home
from hermes.core.messages import User

GREETING = "Ctrl-C stops a turn, Ctrl-D ends the chat, Alt-Enter starts a new line."
LEAVE = ("/quit", "/exit", "/q")


async def converse(agent: Agent, renderer: Renderer, home: Home, style: Style) -> int:
    """Turn after turn, until the user leaves."""
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
    while True:
        try:
            text = (await prompt.prompt_async(ANSI(style.accent("› ")))).strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if text in LEAVE:
            return 0
        if text:
            await one_turn(agent, User.say(text), renderer)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
