"""What Hermes knows about the Singularity backend without loading it."""

from hermes.sdk.terminal import TerminalManifest

MANIFEST = TerminalManifest(
    name="singularity",
    backend="hermes_plugins.terminals.singularity.backend:SingularityHost",
    summary="in a container: Apptainer",
    place="a container, not the user's machine",
    programs=("apptainer", "singularity"),
    install="apptainer",
    questions=(("singularity_image", "image"),),
)
