"""Paper and terracotta, for light terminals."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="warm-lightmode",
    description="terracotta on paper, for light terminals",
    colors=palette(
        "#af4a00",
        "#875f00",
        code="#87334d",
        link="#5f5faf",
        ok="#4a6b00",
        warn="#a05000",
        error="#b00000",
        dim="#75685c",
    ),
    spinner=Spinner(
        waiting_faces=("◜", "◠", "◝", "◞", "◡", "◟"),
        thinking_verbs=("brewing", "leafing through", "mulling it over", "taking notes"),
    ),
    branding=Branding(
        welcome="Come in, sit down. What is on your mind?",
        goodbye="Take care.",
        prompt_symbol="»",
        help_header="What you can ask for",
    ),
    tool_prefix="◆",
)
