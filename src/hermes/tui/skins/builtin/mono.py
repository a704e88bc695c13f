"""No colours at all: bold, italic and underlined, on any terminal."""

from hermes.tui.skins import Branding, Skin, Spinner

SKIN = Skin(
    name="mono",
    description="no colours: for any terminal",
    colors={
        "dim": "dim",
        "accent": "bold",
        "heading": "bold",
        "code": "",
        "link": "underline",
        "quote": "italic",
        "ok": "",
        "warn": "bold",
        "error": "bold underline",
        "added": "bold",
        "removed": "dim",
        "prompt": "bold",
        "tool": "bold",
        "status": "dim",
        "rule": "dim",
        "banner": "bold",
    },
    spinner=Spinner(waiting_faces=("|", "/", "-", "\\"), thinking_verbs=("thinking",)),
    branding=Branding(
        welcome="Ready. /help shows what there is.",
        goodbye="Goodbye.",
        prompt_symbol=">",
        help_header="Commands",
    ),
    tool_prefix="*",
)
