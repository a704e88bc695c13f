"""The manifest of the Matrix platform."""

from hermes.sdk.platforms import (
    ALL_MEDIA,
    AddressFormat,
    Capabilities,
    CredentialField,
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


MANIFEST = PlatformManifest(
    name="matrix",
    label="Matrix",
    adapter="hermes_plugins.platforms.matrix.adapter:MatrixAdapter",
    capabilities=Capabilities(
        # An event has at most 65,536 bytes and holds the text twice, encrypted a third more.
        max_chars=20_000,
        counts="bytes",
        dialect="matrix",
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
