"""Commands about the conversation itself."""

from hermes.app.background import brief
from hermes.app.commands.talk import Call
from hermes.core.errors import UsageError
from hermes.core.events import Compacted
from hermes.core.messages import Message, User
from hermes.store.rows import repair_history
from hermes.terminal import ProcessState
from hermes.tools.checkpoints import checkpoints
from hermes.util.session_ids import new_session_id
from hermes.util.text import many


async def new(call: Call) -> str:
    agent = await call.app.renew(call.agent, call.talk.go_on_with)
    return f"A new conversation: session `{agent.session_id}`"


async def retry(call: Call) -> str:
    asked = _last_question(call)
    await _take_back(call, 1)
    await call.talk.ask(User(asked.said))
    return ""


async def undo(call: Call) -> str:
    turns = _number(call, 1)
    _last_question(call)
    return taken_back(call, await _take_back(call, turns))


def taken_back(call: Call, text: str) -> str:
    left = sum(isinstance(message, User) for message in call.agent.history)
    return f"Taken back from: {brief(text)}\n{many(left, 'question')} left."


async def title(call: Call) -> str:
    store, session = call.app.store, call.agent.session_id
    if call.arguments:
        await store.set_title(session, call.arguments)
    found = (await store.info(session)).title
    return f"Title: {found}" if found else "This session has no title yet: `/title TITLE`"


async def compress(call: Call) -> str:
    event = await call.agent.compress(call.arguments)
    if not isinstance(event, Compacted):
        return getattr(event, "text", "")
    saved = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
    return f"Compacted: {saved}, now session `{event.session_id}`"


async def rollback(call: Call) -> str:
    workbench = call.app.session(call.agent).workbench
    if not workbench.has_checkpoints:
        raise UsageError(
            "there are no checkpoints here",
            hint="they need checkpoints.enabled and files on this machine",
        )
    return await checkpoints.rollback(workbench.checkpoints, call.arguments)


async def stop(call: Call, beside: int = 0) -> str:
    """`beside` is how many tasks somebody else stopped already."""
    if call.agent.interrupt():
        return ""
    count = beside + await call.app.background.stop(call.agent)
    processes = call.app.session(call.agent).workbench.processes
    for process in _running(call):
        await processes.kill(process.id)
        count += 1
    return stopped(count)


def stopped(count: int) -> str:
    return f"Stopped {many(count, 'background task')}." if count else "Nothing is running."


async def queue(call: Call) -> str:
    if not call.arguments:
        raise UsageError("nothing to keep", hint="/queue MESSAGE")
    call.talk.later(call.arguments)
    return "Kept for after this turn." if call.talk.busy else ""


async def steer(call: Call) -> str:
    if not call.arguments:
        raise UsageError("nothing to say", hint="/steer MESSAGE")
    if call.agent.steer(call.arguments):
        return "The agent hears it after its next step."
    await call.talk.ask(User.say(call.arguments))
    return ""


async def resume(call: Call) -> str:
    if not call.arguments:
        raise UsageError("which conversation?", hint="/resume ID or TITLE; /sessions lists them")
    found = await call.app.store.resolve(call.arguments)
    if found.id == call.agent.session_id:
        return "You are in this conversation."
    await call.app.move(call.agent, found.id, call.talk.go_on_with)
    return f"Back in {found.title or found.id}."


async def branch(call: Call) -> str:
    store, old = call.app.store, call.agent.session_id
    if not call.agent.history:
        raise UsageError("there is nothing to branch from yet")
    session = new_session_id(call.app.clock.now())
    await store.branch(old, session)
    return await into_branch(call, old, session)


async def into_branch(call: Call, old: str, session: str) -> str:
    """Go on in a copy that is made."""
    if call.arguments:
        await call.app.store.set_title(session, call.arguments)
    if call.agent.session_id != session:
        await call.app.move(call.agent, session, call.talk.go_on_with)
    return f"This is a copy now: session `{session}`. `/resume {old}` goes back."


async def background(call: Call) -> str:
    if not call.arguments:
        raise UsageError("what is to be done?", hint="/background TASK")
    task = call.app.background.start(
        call.agent, call.app.session(call.agent).start.request, call.arguments, call.talk.show
    )
    return f"Started `{task}`; its answer comes here. `/agents` shows what runs."


async def agents(call: Call) -> str:
    return running(beside(call))


def beside(call: Call) -> list[str]:
    """What runs beside the conversation, a line each."""
    tasks = call.app.background.lines(call.agent)
    return [*tasks, *(f"`{each.id}` {brief(each.command)}" for each in _running(call))]


def running(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "Nothing runs in the background."


async def btw(call: Call) -> str:
    if not call.arguments:
        raise UsageError("what do you want to know?", hint="/btw QUESTION")
    return await call.app.session(call.agent).looking_back.aside(call.agent, call.arguments)


def _number(call: Call, default: int) -> int:
    if not call.arguments:
        return default
    if not call.arguments.isdecimal() or not int(call.arguments):
        raise UsageError(f"{call.arguments!r} is no number", hint=f"/{call.command.name} [N]")
    return int(call.arguments)


def _last_question(call: Call) -> User:
    asked = [message for message in call.agent.history if isinstance(message, User)]
    if not asked:
        raise UsageError("nothing was asked yet")
    if call.agent.running:
        raise UsageError("a turn is running", hint="/stop ends it")
    return asked[-1]


async def _take_back(call: Call, turns: int) -> str:
    """The text of the first question taken back."""
    agent, store = call.agent, call.app.store
    text = await store.undo(agent.session_id, turns)
    agent.rewrite(_kept(agent.history, await store.messages(agent.session_id)))
    return text


def _kept(history: tuple[Message, ...], stored: tuple[Message, ...]) -> tuple[Message, ...]:
    """What is left of `history`. Its own messages are taken rather than the stored ones: they are
    what the model was sent, asides and all, and what its cache knows."""
    left = history[: len(stored)]
    same = all(type(one) is type(other) for one, other in zip(left, stored, strict=False))
    return left if same and len(left) == len(stored) else repair_history(stored)


def _running(call: Call) -> list[ProcessState]:
    processes = call.app.session(call.agent).workbench.processes
    return [each for each in processes.list() if each.state == "running"]
