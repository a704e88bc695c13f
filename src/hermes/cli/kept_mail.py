"""What jobs send while no gateway runs here: it is kept, and the next gateway sends it."""

from importlib import import_module

from hermes.app.app import App
from hermes.core.ports import Outbox


def kept_mail(app: App) -> Outbox | None:
    """None when no platform is set up."""
    set_up = import_module("hermes.gateway.set_up")
    platforms = set_up.configured(app.loaded)
    if not platforms:
        return None
    directory = import_module("hermes.gateway.directory").Directory(
        app.home.root / "channel_directory.json"
    )
    targets = import_module("hermes.gateway.targets").Targets(
        platforms, app.loaded.variable, directory
    )
    outbox: Outbox = import_module("hermes.gateway.post").Post(
        app.store,
        targets.resolve,
        platforms,
        import_module("hermes.gateway.files_out").OutgoingFiles(app.home),
        app.clock,
        known=targets.lines,
    )
    return outbox
