"""The manifest of the Matrix platform."""

from collections.abc import Sequence
from functools import partial
from html import escape

from hermes.sdk.platforms import (
    ALL_MEDIA,
    WEB_SCHEMES,
    AddressFormat,
    Capabilities,
    CredentialField,
    MessageDialect,
    PlatformBehaviour,
    PlatformManifest,
    RateLimit,
    UserIdFormat,
    variable_group,
)


class MatrixSettings(PlatformBehaviour, frozen=True):
    require_mention: bool = True  #: Answer in rooms only when mentioned.
    free_response_rooms: tuple[str, ...] = ()  #: Rooms where no mention is needed.
    auto_thread: bool = True  #: Open a thread for each conversation.
    dm_mention_threads: bool = False  #: Open a thread when mentioned in a direct chat.
    reactions: bool = True  #: Show progress by reactions.


_escape = partial(escape, quote=False)


def _link(label: str, url: str) -> str:
    return f'<a href="{escape(url)}">{label}</a>'


def _fence(language: str, code: str) -> str:
    attribute = f' class="language-{language}"' if language else ""
    return f"<pre><code{attribute}>{_escape(code)}\n</code></pre>"


def _list(first: int | None, items: Sequence[str]) -> str:
    tag = "ul" if first is None else "ol"
    start = f' start="{first}"' if first not in (None, 1) else ""
    return f"<{tag}{start}>{''.join(f'<li>{item}</li>' for item in items)}</{tag}>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in rows[0])
    cells = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows[1:])
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


DIALECT = MessageDialect(
    text=_escape,
    strong=("<strong>", "</strong>"),
    em=("<em>", "</em>"),
    s=("<del>", "</del>"),
    code=lambda code: f"<code>{_escape(code)}</code>",
    link=_link,
    url=lambda url: _link(_escape(url), url),
    schemes=(*WEB_SCHEMES, "matrix:"),
    line_break="<br>",
    paragraph="<p>{}</p>".format,
    bare_paragraphs=True,
    fence=_fence,
    heading="<h{0}>{1}</h{0}>".format,
    quote="<blockquote>{}</blockquote>".format,
    listing=_list,
    table=_table,
    rule="<hr>",
    between="\n",
)

MANIFEST = PlatformManifest(
    name="matrix",
    label="Matrix",
    adapter="hermes_plugins.platforms.matrix.adapter:MatrixAdapter",
    capabilities=Capabilities(
        # An event has at most 65,536 bytes and holds the text twice, encrypted a third more.
        max_chars=20_000,
        counts="bytes",
        dialect=DIALECT,
        edits=True,
        typing=True,
        reactions=True,
        threads=True,
        media_in=ALL_MEDIA,
        media_out=ALL_MEDIA,
        max_upload_bytes=50_000_000,
        checks_delivery=True,
        per_chat=RateLimit(20, 60.0),
        per_platform=RateLimit(60, 60.0),
    ),
    credentials=(
        CredentialField(
            "MATRIX_HOMESERVER", "Homeserver", "its address, as https://matrix.org", secret=False
        ),
        CredentialField(
            "MATRIX_ACCESS_TOKEN",
            "Access token",
            "of the bot's account; empty to use its name and password",
            required=False,
        ),
        CredentialField(
            "MATRIX_USER_ID", "User id", "as @hermes:matrix.org", secret=False, required=False
        ),
        CredentialField("MATRIX_PASSWORD", "Password", "when there is no token", required=False),
        CredentialField(
            "MATRIX_ENCRYPTION",
            "Encrypted rooms",
            "true to read and write in encrypted rooms",
            secret=False,
            required=False,
        ),
        CredentialField(
            "MATRIX_RECOVERY_KEY",
            "Recovery key",
            "of the bot's account, so that people see its device as verified",
            required=False,
        ),
    ),
    needs=("aiohttp", "nio", "vodozemac"),
    env_prefix="MATRIX",
    home_variable="MATRIX_HOME_ROOM",
    users=UserIdFormat(r"@[^\s:]+:\S+", "written as @anna:example.org", ignore_case=True),
    # Ids contain colons, and threads are events.
    addresses=AddressFormat(thread_mark=":$", names=False),
    knows_groups=True,
    settings=MatrixSettings,
    variables=tuple(
        variable_group(
            "MATRIX_",
            "matrix",
            "REQUIRE_MENTION FREE_RESPONSE_ROOMS AUTO_THREAD DM_MENTION_THREADS REACTIONS",
        )
    ),
    prompt_hint="You are in a Matrix room. Markdown renders.",
    setup_help=(
        "Register an account for the bot on a homeserver, then give its access token, or its user"
        " id and password. The bot joins every room it is invited to; who is answered there is"
        " decided by MATRIX_ALLOWED_USERS and pairing, as everywhere."
    ),
)
