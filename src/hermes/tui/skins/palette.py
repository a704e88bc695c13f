"""Colours for every role from a few that go together."""

GREY = "#808080"
"""Readable on black and on white."""


def palette(
    accent: str,
    second: str,
    *,
    code: str,
    link: str,
    ok: str,
    warn: str,
    error: str,
    dim: str = GREY,
) -> dict[str, str]:
    """`accent` is the colour of the skin, `second` goes with it."""
    return {
        "dim": dim,
        "accent": accent,
        "heading": f"bold {accent}",
        "code": code,
        "link": f"underline {link}",
        "quote": f"italic {dim}",
        "ok": ok,
        "warn": warn,
        "error": error,
        "added": ok,
        "removed": error,
        "prompt": f"bold {accent}",
        "reasoning": f"italic {dim}",
        "tool": second,
        "status": dim,
        "rule": dim,
        "banner": f"bold {accent}",
    }
