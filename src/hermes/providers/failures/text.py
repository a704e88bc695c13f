"""An endpoint's words, made fit to be shown: one line, no control characters, no keys."""

import re
import unicodedata

HIDDEN = "***"
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])|\x9b[0-?]*[@-~]"
)
_KEYS = re.compile(
    r"""
    (?<![A-Za-z0-9])(?:
        (?:sk|pk|rk|ak|gsk|csk|xai|hf|nvapi|vck|ghp|gho|ghu|ghs|ghr|github_pat|tgp|fw|r8|bce)
            [-_][A-Za-z0-9_\-*.…]{5,}[A-Za-z0-9*…]      # with a known beginning, cut or not
      | AIza[A-Za-z0-9_\-*.…]{6,}
      | (?:AKIA|ASIA)[A-Z0-9]{8,}
      | eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}   # a JSON Web Token
      | [A-Za-z0-9_\-]{0,12}\*{3,}[A-Za-z0-9_\-]{0,12}  # shown in part: na***ys
      | (?=[A-Za-z_]*[0-9])(?=[0-9_]*[A-Za-z])[A-Za-z0-9_]{32,}(?:\.[A-Za-z0-9]{8,})?
    )
  | (?<=\bBearer\ )\S+
  | (?<=key\ provided:\ )\S+
    """,
    re.VERBOSE,
)
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def presentable(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, cleaned and free of what looks like a key."""
    plain = _ESCAPES.sub("", text[: limit * 10])
    shown = "".join(char if _is_shown(char) else " " for char in plain)
    hidden = _KEYS.sub(HIDDEN, " ".join(shown.split()))
    return hidden if len(hidden) <= limit else f"{hidden[: limit - 1].rstrip()}…"


def _is_shown(char: str) -> bool:
    return (char.isascii() and char.isprintable()) or unicodedata.category(char) not in _UNSHOWN
