"""How the agent behaves on Slack, from settings and variables."""

import msgspec

from hermes.config.settings.platform_extras import SlackExtra
from hermes.config.settings.platforms import SlackSettings
from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused

BASE_URL = "https://slack.com/api/"
BOT_HINT = (
    "SLACK_BOT_TOKEN is the Bot User OAuth Token (xoxb-…) of the page OAuth & Permissions of your"
    " app at api.slack.com/apps."
)
APP_HINT = (
    "SLACK_APP_TOKEN is an App-Level Token (xapp-…) with the scope connections:write, from the page"
    " Basic Information of your app at api.slack.com/apps."
)


class Options(msgspec.Struct, frozen=True):
    tokens: tuple[str, ...]
    """One for each workspace; the first is home."""
    app_token: str
    settings: SlackSettings = SlackSettings()
    threads: bool = True
    """Messages of channels are answered in their thread."""
    broadcast: bool = False
    """Such an answer is shown in the channel too."""
    quotes: bool = True
    """Answers say what they answer, so their first part can be told from the rest."""
    base_url: str = BASE_URL


def options_of(context: AdapterContext) -> Options:
    connection, settings = context.connection, context.settings
    extra = getattr(connection, "extra", None)
    own = extra if isinstance(extra, SlackExtra) else SlackExtra()
    said = (context.variable("SLACK_BOT_TOKEN") or "", getattr(connection, "token", "") or "")
    tokens = [token.strip() for token in ",".join(said).split(",")]
    quotes = str(getattr(connection, "reply_to_mode", "first") or "off") != "off"
    return Options(
        tokens=tuple(dict.fromkeys(filter(None, tokens))),
        app_token=(context.variable("SLACK_APP_TOKEN") or "").strip(),
        settings=settings if isinstance(settings, SlackSettings) else SlackSettings(),
        threads=own.reply_in_thread and quotes,
        broadcast=own.reply_broadcast,
        quotes=quotes,
        base_url=str(context.extra.get("base_url") or BASE_URL),
    )


def check(options: Options) -> None:
    """Raises `CredentialsRefused` for tokens that are missing or in each other's place."""
    if not options.tokens:
        raise CredentialsRefused("there is no bot token for Slack", hint=BOT_HINT)
    if not options.app_token:
        raise CredentialsRefused("there is no app-level token for Slack", hint=APP_HINT)
    if not options.app_token.startswith("xapp-"):
        raise CredentialsRefused("SLACK_APP_TOKEN is no app-level token (xapp-…)", hint=APP_HINT)
    if any(token.startswith("xapp-") for token in options.tokens):
        raise CredentialsRefused("SLACK_BOT_TOKEN is no bot token (xoxb-…)", hint=BOT_HINT)
