"""What the parent tells the model process, and what it hears back."""

import msgspec


class ServeOrder(msgspec.Struct, frozen=True):
    model: str
    """Path of the GGUF file."""
    alias: str
    api_key: str
    """Every request must carry it; made anew for each process."""
    context: int
    threads: int
    slots: str
    """Folder for saved prompt prefixes, with a slash at the end."""
    verbosity: int = 1


class ServeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Exactly one of the two is set."""

    address: str = ""
    error: str = ""
