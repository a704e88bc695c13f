"""Iron and blood: the god of war."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="ares",
    description="crimson and bronze, for dark terminals",
    colors=palette(
        "#e5484d",
        "#d7875f",
        code="#d7af5f",
        link="#87afd7",
        ok="#87af5f",
        warn="#ffaf00",
        error="#ff5f5f",
        dim="#8a8078",
    ),
    spinner=Spinner(
        waiting_faces=("†", "‡", "╪", "‡"),
        thinking_verbs=(
            "sharpening the spear", "drawing up ranks", "scouting ahead", "forging a plan",
            "testing the walls", "holding the line",
        ),
        wings=(("⟪", "⟫"), ("«", "»")),
    ),
    branding=Branding(
        agent_name="Ares",
        welcome="The field is yours. Give the order.",
        goodbye="The battle rests.",
        response_label="† Ares",
        prompt_symbol="➤",
        help_header="Orders",
    ),
    tool_prefix="▸",
)  # fmt: skip
