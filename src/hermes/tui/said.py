"""What the user sent."""

import msgspec

from hermes.core.messages import Image, Text, User


class Said(msgspec.Struct, frozen=True):
    """Something the user sent."""

    text: str
    """As it is shown."""
    images: tuple[Image, ...] = ()
    whole: str = ""
    """With what was pasted, where that is shown as a placeholder."""
    shown: bool = False
    """It stands on the screen already."""

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/") and not self.images

    @property
    def message(self) -> User:
        return User((Text(self.whole or self.text), *self.images))
