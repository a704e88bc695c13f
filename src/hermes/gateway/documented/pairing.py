"""`gateway.pairing`."""

from hermes.app.compat.runtime import shared_process
from hermes.gateway import pairing
from hermes.util.clock import SystemClock


class PairingStore(pairing.PairingStore):
    """Of the home in force."""

    def __init__(self) -> None:
        super().__init__(shared_process().home.root / pairing.FOLDER, SystemClock())
