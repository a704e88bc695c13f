"""Fire and sky."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="charizard",
    description="flame orange and sky blue, for dark terminals",
    colors=palette(
        "#ff8700",
        "#5fafd7",
        code="#ffd75f",
        link="#87afff",
        ok="#87d75f",
        warn="#ffd700",
        error="#ff5f3f",
        dim="#93806c",
    ),
    spinner=Spinner(
        waiting_faces=("🔥  ", " 🔥 ", "  🔥", " 🔥 "),
        thinking_verbs=(
            "breathing in", "heating up", "circling", "spreading wings", "fanning the flame",
            "gaining height",
        ),
        wings=(("∿", "∿"), ("⌃", "⌃")),
    ),
    branding=Branding(
        agent_name="Charizard",
        welcome="The flame burns bright. Where to?",
        goodbye="The flame is banked.",
        response_label="🔥 Charizard",
        prompt_symbol="▲",
        help_header="Moves",
    ),
    tool_prefix="✦",
    tool_emojis={
        "terminal": "🔥",
        "process": "🌋",
        "read_file": "📜",
        "write_file": "🪶",
        "patch": "🐾",
        "search_files": "👀",
        "web_search": "💨",
        "web_extract": "🌄",
        "delegate_task": "🐉",
        "todo": "🎯",
        "execute_code": "🐍",
        "clarify": "💬",
        "memory": "🥚",
    },
)  # fmt: skip
