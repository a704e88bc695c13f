"""Clock, time zone and terminal."""

import locale

from hermes.app.choices import main_choice
from hermes.app.doctor.findings import Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.core.errors import HermesError
from hermes.providers import LOCAL
from hermes.util.text import human_duration

MOST_SKEW = 60.0
"""Seconds the clock may be wrong; signatures and logins fail soon after."""
NARROW = 40


async def clock(scene: Scene) -> Found:
    """Against the endpoint that is asked anyway."""
    try:
        target = scene.providers.known_target(main_choice(scene.loaded))
    except HermesError:
        return []
    if target.provider == LOCAL:
        return []
    await scene.asking.answer(target)
    return [found for host, skew in scene.asking.skews.items() for found in _skewed(host, skew)][:1]


def _skewed(host: str, skew: float) -> Found:
    if abs(skew) <= MOST_SKEW:
        return [fine(f"the clock agrees with that of {host}")]
    way = "fast" if skew > 0 else "slow"
    text = f"the clock is {human_duration(abs(skew))} {way}, compared with {host}"
    return [problem(text, "set the clock (timedatectl set-ntp true): logins and signatures fail")]


def time_zone(scene: Scene) -> Found:
    name = scene.settings.timezone
    if not name:
        here = scene.clock.now().astimezone()
        return [fine(f"the machine's time zone, {here.tzname()}, is used")]
    return [fine(name)]


def terminal(scene: Scene) -> Found:
    screen = scene.screen
    if not screen.is_terminal:
        return [fine("not a terminal: plain text is written")]
    found: Found = []
    spoken = locale.getpreferredencoding(False)
    if "utf" not in screen.encoding.lower() or "utf" not in spoken.lower():
        text = f"the terminal's encoding is {screen.encoding} ({spoken}), not UTF-8"
        found.append(warning(text, "export LANG=C.UTF-8 before starting Hermes"))
    if screen.term in ("", "dumb", "unknown"):
        text = f"TERM is {screen.term or 'not set'}: the plain prompt is used"
        found.append(warning(text, "export TERM=xterm-256color if your terminal can do that"))
    if screen.columns < NARROW:
        text = f"the terminal has {screen.columns} columns"
        found.append(warning(text, f"make it at least {NARROW} columns wide"))
    colours = f"{screen.colours} colours" if screen.colours else "no colours"
    return found or [fine(f"{screen.term}, {screen.columns} columns, UTF-8, {colours}")]
