"""Which model answers and why, in lines for a person."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hermes.cli.style import Style
from hermes.core.usage import Price

if TYPE_CHECKING:
    from hermes.ops.status import Resolution, Resolved


def main_lines(resolution: "Resolution", style: Style) -> Iterator[str]:
    main = resolution.main
    if main.problem:
        yield fact("model", style.bad(f"{_named(main)}: {main.problem}"))
        if main.hint:
            yield fact("", main.hint)
        return
    yield fact("model", style.bold(_named(main)))
    yield fact("because", main.why)
    if main.base_url:
        yield fact("address", f"{main.base_url} ({main.api_mode})")
    for number, key in enumerate(main.keys):
        yield fact("" if number else "key", f"{key.key}  {style.dim(key.source)}")
    yield fact("context", f"{main.context_length:,} tokens")
    yield fact("price", price_text(main.price))
    for number, other in enumerate(resolution.also):
        yield fact("" if number else "also set up", f"{other.provider} ({other.why})")


def brief(found: "Resolved", style: Style) -> str:
    """One line: what it is, or what is wrong with it."""
    if found.problem:
        return style.bad(f"{_named(found)}: {found.problem}")
    return _named(found)


def price_text(price: Price | None) -> str:
    if price is None:
        return "not known"
    if price.input == price.output == 0:
        return "free"
    dated = f", as of {price.date}" if price.date else ""
    return f"${price.input:g} in, ${price.output:g} out for a million tokens{dated}"


def _named(found: "Resolved") -> str:
    return f"{found.model} on {found.provider}" if found.model else found.provider


def fact(name: str, text: str) -> str:
    return f"{name:<12} {text}"
