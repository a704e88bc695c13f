"""What Hermes knows about the Daytona backend without loading it."""

from hermes.sdk.terminal import TerminalManifest

MANIFEST = TerminalManifest(
    name="daytona",
    backend="hermes_plugins.terminals.daytona.backend:DaytonaHost",
    summary="in the cloud of Daytona",
    place="a container in the cloud",
    package="daytona",
    secrets=("DAYTONA_API_KEY",),
    copies_credentials=True,
)
