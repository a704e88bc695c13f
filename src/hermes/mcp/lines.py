"""What servers say, as a line for people."""

from hermes.util.plain import plain_line


def one_line(text: str, most: int) -> str:
    """At most `most` characters of `text` on one line, with nothing in it that could drive a
    terminal or turn the direction of what follows."""
    return plain_line(text[: 4 * most])[:most]
