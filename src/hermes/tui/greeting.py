"""How a conversation begins."""

from hermes.tui.cells import width
from hermes.tui.conversation import Conversation
from hermes.tui.recap import recap

BROKEN_OFF = "The last turn was broken off and goes on now; what its tools did is not done again."
HINT = "Alt-Enter begins a new line, Ctrl-C stops, /help lists the commands."


def greet(talk: Conversation, complaint: str, resume_display: str) -> None:
    """Who answers, what was said so far, and what is wrong with the skin."""
    view, agent, looks = talk.view, talk.agent, talk.looks
    branding, paint = looks.skin.branding, looks.paint
    where = f"{agent.models.name} on {agent.models.provider}, session {agent.session_id}"
    name = paint("banner", branding.agent_name)
    if width(f"{branding.agent_name}  {where}") <= talk.columns():
        view.out([f"{name}  {paint('dim', where)}"])
    else:
        view.out([name])
        view.note(where, "dim")
    for line in filter(None, (branding.welcome or HINT, talk.app.caching_line(agent))):
        view.note(line, "dim")
    if complaint:
        view.note(complaint)
    if agent.history and resume_display != "none":
        view.gap()
        view.out(recap(agent.history, paint, talk.columns(), branding.prompt_symbol))
    if agent.abandoned:
        view.note(BROKEN_OFF)
    view.gap()
