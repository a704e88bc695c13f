"""`hermes setup` with a person at a terminal."""

from pathlib import Path

from hermes.core.testing import ModelServer


def test_text_typed_before_the_next_question_answers_it(screen, hermes_home: Path) -> None:
    with ModelServer([], models=["m-1", "m-2"]) as server:
        it = screen("setup", "model").sees("type to filter")
        # All at once: the list, the URL, no key.
        it.type(f"custom\r{server.url}/v1\r\r").sees("▸ m-1").press("down", "enter")
        it.sees("now using m-2 on custom")
    assert server.url in (hermes_home / "config.yaml").read_text()


def test_a_line_begun_before_the_question_can_be_corrected(screen, hermes_home: Path) -> None:
    with ModelServer([], models=["m-1"]) as server:
        it = screen("setup", "model").sees("type to filter")
        it.type(f"custom\r{server.url}/vx").sees("URL, such as").sees("/vx").press("backspace")
        it.type("1\r").sees("API key (not shown").press("enter").sees("▸ m-1").press("enter")
        it.sees("now using m-1 on custom")
    assert f"{server.url}/v1\n" in (hermes_home / "config.yaml").read_text()


def test_long_messages_break_between_words(screen) -> None:
    it = screen("config", "set", "model.defualt", "x", columns=38)
    it.ended()
    assert "did you mean" in " ".join(it.lines), it.text
    words = " ".join(it.text.split())
    wide = screen("config", "set", "model.defualt", "x", columns=200)
    wide.ended()
    assert words == " ".join(wide.text.split())
    assert max(map(len, it.lines)) <= 38
