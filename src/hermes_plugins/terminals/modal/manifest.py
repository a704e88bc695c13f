"""What Hermes knows about the Modal backend without loading it."""

from hermes.sdk.terminal import TerminalManifest

MANIFEST = TerminalManifest(
    name="modal",
    backend="hermes_plugins.terminals.modal.backend:ModalHost",
    summary="in the cloud of Modal",
    place="a container in the cloud",
    package="modal",
    secrets=("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
    copies_credentials=True,
)
