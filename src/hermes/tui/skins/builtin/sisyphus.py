"""The stone, the hill, and one must imagine him happy."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="sisyphus",
    description="stone and dust, for dark terminals",
    colors=palette(
        "#bcb09a",
        "#a8a8a8",
        code="#d7c9a0",
        link="#9db4c0",
        ok="#9aaf7a",
        warn="#d7af5f",
        error="#d7876f",
        dim="#857d72",
    ),
    spinner=Spinner(
        waiting_faces=("o___╱", "_o__╱", "__o_╱", "___o╱", "__o_╱", "_o__╱"),
        thinking_verbs=(
            "pushing the stone", "once more uphill", "catching breath", "almost at the top",
            "starting over, gladly", "leaning in",
        ),
    ),
    branding=Branding(
        agent_name="Sisyphus",
        welcome="The stone is at the foot of the hill. Shall we?",
        goodbye="It rolled down again. Until tomorrow.",
        response_label="● Sisyphus",
        prompt_symbol="▴",
        help_header="Ways up the hill",
    ),
)  # fmt: skip
