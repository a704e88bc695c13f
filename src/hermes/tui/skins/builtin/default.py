"""Gold, with kawaii faces. Readable on dark and on light terminals alike."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="default",
    description="gold, with kawaii faces; for dark and light terminals",
    colors=palette(
        "#af8700",
        "#0087af",
        code="#af5faf",
        link="#5f87d7",
        ok="#228b22",
        warn="#c86400",
        error="#d7334d",
    ),
    spinner=Spinner(
        waiting_faces=("(◕‿◕✿)", "(◕ᴗ◕✿)", "(◠‿◠✿)", "(ᵔ◡ᵔ✿)", "(◕‿◕✿)", "(◕‿-✿)"),
        thinking_faces=("(・_・ )", "( ・_・)", "(・ω・ )", "( ・ω・)", "(￣▽￣)"),
        thinking_verbs=(
            "pondering", "musing", "thinking", "wondering", "daydreaming", "puzzling",
            "weighing it up", "connecting dots", "humming along", "chasing a thought",
        ),
    ),
    branding=Branding(
        agent_name="Hermes",
        goodbye="See you soon!",
        help_header="Commands",
    ),
    tool_emojis={
        "terminal": "💻",
        "process": "⏳",
        "read_file": "📖",
        "write_file": "📝",
        "patch": "🔧",
        "search_files": "🔍",
        "web_search": "🌐",
        "web_extract": "📄",
        "delegate_task": "🤝",
        "todo": "📋",
        "execute_code": "🐍",
        "clarify": "💬",
        "memory": "🧠",
        "session_search": "📜",
        "skills_list": "📚",
        "skill_view": "📚",
        "skill_manage": "📚",
        "tool_search": "🧰",
        "cronjob": "⏰",
        "send_message": "📨",
        "image_generate": "🎨",
        "vision_analyze": "👀",
        "text_to_speech": "🔊",
        "mixture_of_agents": "🎭",
    },
)  # fmt: skip
