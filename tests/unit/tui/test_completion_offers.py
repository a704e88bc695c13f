"""Which names a few letters mean."""

from hermes.tui.completion import MAX_OFFERS, Offer, OfferIndex


def found(typed: str, *names: str) -> list[str]:
    return [match.name for match in OfferIndex([Offer(name) for name in names]).find(typed)]


def test_beginnings_come_before_words_before_parts_before_letters() -> None:
    names = ("mixed-order", "premodel", "set-model", "models", "model", "other")
    assert found("mod", *names) == ["models", "model", "set-model", "premodel", "mixed-order"]
    assert found("model", *names)[:2] == ["model", "models"]
    assert found("MOD", *names) == found("mod", *names)


def test_nothing_typed_offers_everything_in_order() -> None:
    assert found("", "b", "a", "c") == ["b", "a", "c"]
    assert len(found("", *(f"name-{number}" for number in range(80)))) == MAX_OFFERS


def test_scattered_letters_prefer_short_names() -> None:
    assert found("rn", "long-release-of-notes", "release-notes") == ["release-notes",
        "long-release-of-notes"]  # fmt: skip
    assert found("nr", "release-notes") == []


def test_an_alias_is_offered_only_when_its_beginning_is_typed() -> None:
    shelf = OfferIndex([Offer("new", aliases=("reset",)), Offer("retry"), Offer("breset")])
    assert [match.name for match in shelf.find("re")] == ["retry", "reset", "breset"]
    assert [match.name for match in shelf.find("reset")] == ["reset", "breset"]
    assert [match.name for match in shelf.find("n")] == ["new"]
    assert [match.name for match in shelf.find("rst")] == ["breset"]


def test_signs_of_regular_expressions_are_only_signs() -> None:
    assert found("c++", "c++", "c+") == ["c++"]
    assert found("[", "a[b") == ["a[b"]
    assert found("^-]", "x^-]") == ["x^-]"]
