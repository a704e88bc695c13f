"""Dark ink for white terminals."""

from hermes.tui.skins import Branding, Skin, Spinner, palette

SKIN = Skin(
    name="daylight",
    description="blue ink, for light terminals",
    colors=palette(
        "#005faf",
        "#00707a",
        code="#8700af",
        link="#0050c8",
        ok="#00701a",
        warn="#9a5b00",
        error="#c00020",
        dim="#6c6c6c",
    ),
    spinner=Spinner(
        waiting_faces=("○", "◔", "◑", "◕", "●", "◕", "◑", "◔"),
        thinking_verbs=("thinking", "looking into it", "bringing it to light", "sorting it out"),
    ),
    branding=Branding(
        welcome="Good day! What is to be done?",
        goodbye="Have a good day.",
        help_header="Commands",
    ),
)
