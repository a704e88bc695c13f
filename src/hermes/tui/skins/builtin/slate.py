"""Cool and quiet, for long days."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="slate",
    description="cool greys and blue, for dark terminals",
    colors=palette(
        "#87afd7",
        "#8fa1b3",
        code="#afafd7",
        link="#5fafd7",
        ok="#87af87",
        warn="#d7af87",
        error="#d78787",
        dim="#808a94",
    ),
    spinner=Spinner(
        waiting_faces=("⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"),
        thinking_verbs=("thinking", "considering", "reading closely", "working it out"),
    ),
    branding=Branding(
        welcome="Ready when you are.",
        goodbye="Until next time.",
        prompt_symbol="›",
        help_header="Commands",
    ),
    tool_prefix="▪",
)
