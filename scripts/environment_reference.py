"""Writes docs/reference/environment.md: every environment variable. `--check` only compares.

A variable that the code reads and the page does not list is an error: see `unlisted`.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generated_page import row, write_or_check

from hermes.config.home import Home
from hermes.config.loader import all_variables
from hermes.config.reference import meaning
from hermes.gateway.platforms.registry import home_variable, manifests
from hermes.memory import find_provider
from hermes.plugins import bundled_infos
from hermes.providers import ENDPOINTS
from hermes.sdk.memory import ServiceInfo
from hermes.tools.builtin import web_search

SOURCE = Path(__file__).resolve().parents[1] / "src"
READ = re.compile(r"\b(?:variable|secret|flag|environ\.get)\(\s*\"([A-Z][A-Z0-9_]+)\"")

HEAD = """\
# Environment variables

Written by `make docs`; edit `scripts/environment_reference.py` and what it reads instead.

Set variables in the shell or, one `NAME=value` per line, in `.env` of the home (`hermes config set
NAME value` writes there; `hermes config env-path` prints its path). A value in `.env` takes
precedence over one exported in the shell. Commands that the agent runs receive nothing from `.env`
and no variable whose name looks like that of a secret.
"""

OWN = {
    "HERMES_HOME": "the folder of settings, keys and sessions instead of `~/.hermes`",
    "HERMES_PYTHON": "the Python that `./hermes` makes its environment with",
    "VISUAL": "your editor, for Ctrl-O and `hermes config edit`",
    "EDITOR": "the same, when `VISUAL` is not set",
    "BROWSER": "the browser that logins are opened in",
    "PATH": "where programs are looked for",
}
TERMINAL = {
    "NO_COLOR": "set to anything: no colours",
    "TERM": "`dumb` means lines only, as `--plain` does",
    "COLORTERM": "`truecolor` or `24bit`: all colours are used, else 256 or 16",
    "COLORFGBG": "set by some terminals: whether the background is light",
    "TMUX": "set by tmux, which rewraps lines and passes on links in its own way",
    "KITTY_WINDOW_ID": "set by kitty: how desktop notifications are sent",
    "TERM_PROGRAM": "the name of the terminal: how desktop notifications are sent",
    "TERM_PROGRAM_VERSION": "the version of tmux: links need 3.4",
    "VTE_VERSION": "set by terminals such as GNOME Terminal: links need 0.50",
    "SSH_CONNECTION": "set by ssh: `/copy` then goes through your terminal",
    "DISPLAY": "an X desktop: its clipboard and browser are used",
    "WAYLAND_DISPLAY": "the same for Wayland",
}
MORE: dict[str, dict[str, str]] = {
    "discord": {
        "DISCORD_ALLOWED_ROLES": "ids of roles whose people may talk to the agent",
        "DISCORD_IGNORE_NO_MENTION": "`false`: messages that mention only others are read too",
        "DISCORD_COMMAND_SYNC_POLICY": "native commands: `safe`, `bulk` or `off`",
        "DISCORD_PROXY": "proxy to Discord",
        "HERMES_DISCORD_TEXT_BATCH_DELAY_SECONDS": "seconds to wait for more texts of the same"
        " user, which become one message: 0.6 by default, `0` joins nothing",
        "HERMES_DISCORD_TEXT_BATCH_SPLIT_DELAY_SECONDS": "the same after the last part of a long"
        " text: 0.1 by default",
    },
    "telegram": {
        "TELEGRAM_API_BASE_URL": "a Bot API server of your own",
        "TELEGRAM_WEBHOOK_PORT": "port that Telegram's calls reach, 8443 by default",
    },
    "api_server": {
        "API_SERVER_HOST": "address it listens on, `127.0.0.1` by default",
        "API_SERVER_PORT": "its port, 8642 by default",
        "API_SERVER_CORS_ORIGINS": "web pages that may use it, with commas between",
        "API_SERVER_MODEL_NAME": "what it calls itself in lists of models",
    },
}
"""Variables that a platform reads in addition to its credentials."""
GATEWAY = {
    "GATEWAY_ALLOWED_USERS": "ids that may talk to the agent on every platform",
    "GATEWAY_ALLOW_ALL_USERS": "`true`: every user may",
    "GATEWAY_PROXY_KEY": "the `API_SERVER_KEY` of the Hermes that `gateway.proxy_url` names",
    "INVOCATION_ID": "set by systemd: a restart is left to it",
    "XPC_SERVICE_NAME": "the same for launchd",
    "SUDO_USER": "who installs a service for the whole machine",
    "TZ": "the time zone of this machine, for scheduled jobs without `timezone`",
}
ELSEWHERE = {
    "SUDO_PASSWORD": "the password for `sudo` in commands of the agent",
    "GITHUB_TOKEN": "for skills and plugins from GitHub (more requests, private repositories)",
    "GH_TOKEN": "the same",
    "GITHUB_API_URL": "another GitHub, for skills",
    "GITHUB_SERVER_URL": "the same: its pages",
    "SKILLS_API_URL": "another directory of skills",
    "SSH_AUTH_SOCK": "the ssh agent, for skills in private repositories",
    "MODAL_TOKEN_ID": "a place to run commands in: Modal",
    "MODAL_TOKEN_SECRET": "the same",
    "DAYTONA_API_KEY": "a place to run commands in: Daytona",
    "PARALLEL_SEARCH_MODE": "how Parallel searches, `agentic` by default",
    "AWS_ACCESS_KEY_ID": "credentials for Bedrock",
    "AWS_SECRET_ACCESS_KEY": "the same",
    "AWS_SESSION_TOKEN": "the same",
    "CLAUDE_CONFIG_DIR": "where a login of Claude Code is looked for",
    "CODEX_HOME": "where a login of Codex is looked for",
    "HERMES_COPILOT_ACP_COMMAND": "the Copilot CLI, `copilot` by default",
    "HERMES_COPILOT_ACP_ARGS": "its arguments",
    "HERMES_GEMINI_CLIENT_ID": "an OAuth client of your own for the login of Google",
    "HERMES_GEMINI_CLIENT_SECRET": "the same",
    "HERMES_GEMINI_PROJECT_ID": "the project of that login",
}


def reference() -> str:
    """Return the whole page."""
    text = "\n".join(
        [
            HEAD.rstrip(),
            *table("Hermes itself", OWN),
            *table("The terminal", TERMINAL),
            *settings(),
            *providers(),
            *services(),
            *platforms(),
            *table("The gateway", GATEWAY),
            *table("Others", ELSEWHERE),
        ]
    )
    if left_out := unlisted(text):
        sys.exit(f"scripts/environment_reference.py does not name {', '.join(left_out)}")
    return text + "\n"


def table(title: str, held: dict[str, str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield row("variable", "meaning")
    yield row("---", "---")
    yield from (row(f"`{name}`", text) for name, text in held.items())


def settings() -> Iterator[str]:
    yield "\n## Settings\n\nEach counts only where `config.yaml` does not set the key.\n"
    yield row("variable", "setting", "meaning")
    yield row("---", "---", "---")
    for variable in all_variables():
        sets = f"`{variable.key}`" + (f" = `{variable.flag}` when true" if variable.flag else "")
        yield row(f"`{variable.name}`", sets, meaning(variable.parts))


def providers() -> Iterator[str]:
    yield (
        "\n## Models\n\nOf several variables for one key the first that is set counts."
        " A key goes to its own provider only; see\n[keys](../guide/models.md#keys).\n"
    )
    yield row("provider", "key", "address, instead of its own")
    yield row("---", "---", "---")
    for endpoint in ENDPOINTS:
        if endpoint.key_vars or endpoint.base_url_vars:
            keys, addresses = listed(endpoint.key_vars), listed(endpoint.base_url_vars)
            yield row(f"{endpoint.label} (`{endpoint.id}`)", keys, addresses)


def services() -> Iterator[str]:
    yield "\n## Services\n"
    yield row("service", "key", "address")
    yield row("---", "---", "---")
    names = dict.fromkeys((*web_search.KEY_VARIABLES, *web_search.URL_VARIABLES))
    for name in names:
        held = (web_search.KEY_VARIABLES.get(name), web_search.URL_VARIABLES.get(name))
        yield row(f"web search: {name}", *(listed((each,) if each else ()) for each in held))
    for about in memory_services():
        held = (about.key, about.address_variable)
        yield row(f"memory: {about.title}", *(listed((each,) if each else ()) for each in held))


def platforms() -> Iterator[str]:
    yield (
        "\n## Messaging platforms\n\nA platform is on when its credentials are there, or by"
        " `<NAME>_ENABLED`. Each has further `<NAME>_ALLOWED_USERS` (ids\nwith commas between),"
        " `<NAME>_ALLOW_ALL_USERS` and `<NAME>_ALLOW_BOTS`.\n"
    )
    yield row("platform", "variable", "meaning")
    yield row("---", "---", "---")
    for name, each in manifests().items():
        for held in each.credentials:
            text = held.label + (f": {held.help}" if held.help else "")
            yield row(each.label, f"`{held.name}`", text)
        if each.chats:
            yield row(each.label, f"`{home_variable(each)}`", "its home channel")
        yield from (row(each.label, f"`{key}`", text) for key, text in MORE.get(name, {}).items())


def memory_services() -> Iterator[ServiceInfo]:
    for bundled in bundled_infos("memory"):
        about = getattr(find_provider(bundled.name, Home(Path("/nonexistent"))), "info", None)
        if isinstance(about, ServiceInfo) and about.key:
            yield about


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def unlisted(page: str) -> list[str]:
    """Return the variables that the code reads by name and the page does not list."""
    read = {name for file in SOURCE.rglob("*.py") for name in READ.findall(file.read_text("utf-8"))}
    return sorted(name for name in read if f"`{name}`" not in page)


if __name__ == "__main__":
    sys.exit(write_or_check("environment.md", reference))
