"""The system prompt of a session: built once, stored with it, and sent word for word ever after."""

from datetime import datetime

IDENTITY = """\
You are Hermes, a personal AI agent with tools on the user's own machine.
Do what is asked, completely, and check it with your tools instead of guessing: file contents, \
counts, dates, calculations and the state of the system always come from a tool.
Act in the same reply rather than announcing what you will do. Ask only when a wrong guess would \
be costly. When you are done, answer briefly and plainly: what you found or did, and anything \
the user should know."""

CLI_HINT = "You are talking in a terminal: plain text, short lines, little Markdown."


PLACES = {
    "local": "",
    "sandbox": "a sandbox on this machine: the system is read-only, /tmp is private",
    "docker": "a container, not the user's machine",
    "singularity": "a container, not the user's machine",
    "ssh": "another machine, over SSH",
    "modal": "a container in the cloud",
    "daytona": "a container in the cloud",
}
"""Where commands run and files are, by `terminal.backend`."""


def system_prompt(
    *, working_folder: str, now: datetime, session_id: str, model: str, place: str = "local"
) -> str:
    where = PLACES.get(place, "")
    facts = [
        f"Working folder: {working_folder}",
        *([f"Commands and files are in {where}"] if where else []),
        f"Session began: {now:%A, %Y-%m-%d %H:%M %Z}",
        f"Session: {session_id}",
        f"Model: {model}",
    ]
    return "\n\n".join([IDENTITY, CLI_HINT, "\n".join(facts)])
