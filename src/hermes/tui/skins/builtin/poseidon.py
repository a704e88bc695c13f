"""Deep water."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="poseidon",
    description="sea green and deep blue, for dark terminals",
    colors=palette(
        "#00afd7",
        "#5fd7af",
        code="#87d7ff",
        link="#5fafff",
        ok="#5fd787",
        warn="#ffd75f",
        error="#ff8787",
        dim="#6f8f9f",
    ),
    spinner=Spinner(
        waiting_faces=("~≈≋≈", "≈~≈≋", "≋≈~≈", "≈≋≈~"),
        thinking_verbs=(
            "sounding the depths", "reading the tides", "casting nets", "calming the waves",
            "steering by stars", "diving",
        ),
        wings=(("ψ", "ψ"),),
    ),
    branding=Branding(
        agent_name="Poseidon",
        welcome="The sea is calm. Where do we sail?",
        goodbye="Fair winds.",
        response_label="ψ Poseidon",
        prompt_symbol="ψ",
        help_header="Charts",
    ),
    tool_prefix="≈",
    tool_emojis={
        "terminal": "🔱",
        "process": "🌊",
        "read_file": "🐚",
        "write_file": "🦑",
        "patch": "🐙",
        "search_files": "🐬",
        "web_search": "🌊",
        "web_extract": "🐟",
        "delegate_task": "🚢",
        "todo": "🧭",
        "execute_code": "🐍",
        "clarify": "🐳",
        "memory": "🪸",
    },
)  # fmt: skip
