"""Finding the text to replace: exactly, by looser looks, and never in the wrong place."""

import pytest

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.tools.editing.document import TextDocument
from hermes.tools.editing.matching import STEPS, locate
from tests.cases import cases

CASES = cases(__file__)

CODE = CASES["code"]


def replace(text: str, old: str, new: str, *, replace_all: bool = False) -> tuple[str, str]:
    """The text afterwards, and what was looked past."""
    located = locate(text, old, new, replace_all=replace_all)
    return TextDocument(text.encode()).apply(located.edits).decode(), located.ignored


def test_exact_text_comes_before_nine_looser_steps():
    assert len(STEPS) == 9
    result, past = replace(CODE, "self.lights(True)\n        return True", "pass")
    assert past == ""
    assert result == CODE.replace("self.lights(True)\n        return True", "pass")
    assert replace("a b a", "b", "")[0] == "a  a", "deleting"


@pytest.mark.parametrize("step", CASES["steps"], ids=lambda step: step["past"] or "exact")
def test_each_step_finds_its_text(step):
    result = CODE.replace(*step["change"])
    assert replace(CODE, step["old"], step["new"]) == (result, step["past"])


def test_typography_is_ignored_and_kept_in_unchanged_text():
    text = "He said “stop” – and\nleft.\n"
    past = "quotes and dashes"
    found = replace(text, 'said "stop" - and', 'said "stop" - then')
    assert found == ("He said “stop” – then\nleft.\n", past)
    found = replace(text, 'He said "stop" - and\nleft.', 'He said "stop" - and\nstayed.')
    assert found == ("He said “stop” – and\nstayed.\n", past)
    assert replace("a\u00a0b\n", "a b", "a c")[0] == "a\u00a0c\n"


def test_tabs_and_spaces():
    text = "if x:\n\tif y:\n\t\tgo()\n"
    old = "    if y:\n        go()\n"
    new = "    if y:\n        if z:\n            go()\n"
    assert replace(text, old, new)[0] == "if x:\n\tif y:\n\t\tif z:\n\t\t\tgo()\n"


def test_lines_between_anchors_may_differ_and_stay():
    text = CODE.replace("        self.lights(True)\n", "        self.lights(True)  # all of them\n")
    old = CODE[CODE.index("    def open") : CODE.index("\n    def close")]
    new = old.replace("return False", "return None")
    result, past = replace(text, old, new)
    assert past == "lines in between"
    assert result == text.replace("return False", "return None"), "the comment is still there"


def test_line_unknown_to_the_model_is_not_lost():
    text = CODE.replace(
        "        self.lights(True)\n", "        self.lights(True)\n        audit()\n"
    )
    old = CODE[CODE.index("    def open") : CODE.index("\n    def close")]
    result, _ = replace(text, old, old.replace("return False", "return None"))
    assert "audit()" in result


def test_context_line_may_have_more_words():
    text = "def run(self, task: Task) -> None:\n    a()\n    b()\n    c()\n    d()\n"
    old = "def run(self, task):\n    a()\n    b()\n    c()\n    d()\n"
    result, past = replace(text, old, old.replace("c()", "c(1)"))
    assert past == "a line of context"
    assert result == text.replace("c()", "c(1)")


def refused(text: str, old: str, new: str) -> str:
    with pytest.raises(ToolError) as refusal:
        locate(text, old, new)
    return str(refusal.value)


def test_similar_neighbouring_block_is_not_changed():
    """The model means a method that is not there; only its sibling is."""
    text = "    def handle_get(self):\n        check()\n        log()\n        return self.run(1)\n"
    old = text.replace("handle_get", "handle_post")
    assert "the closest is" in refused(text, old, old.replace("run(1)", "run(2)"))
    old = "timeout = 60\nretries = 3\nname = x\nkind = y\n"
    text = old.replace("60", "30")
    assert "not in the file" in refused(text, old, old.replace("retries = 3", "retries = 5"))


def test_changed_lines_must_match_word_for_word():
    text = CODE.replace("return False", "return None")
    old = CODE[CODE.index("    def open") : CODE.index("\n    def close")]
    assert "not in the file" in refused(text, old, old.replace("return False", "return 0"))


def test_ambiguous_text_names_its_lines():
    assert refused(CODE, "        return True", "x") == (
        "old_string is there 2 times: at lines 6, 12"
    )
    message = refused(CODE, "return  True", "x")
    assert (
        message == "old_string is there 2 times, looking past the amount of spaces: at lines 6, 12"
    )
    many = "x\n" * 50
    assert refused(many, "x", "y").endswith("19, 20 and 30 more")


def test_two_similar_blocks_are_ambiguous():
    block = "start()\nalpha = 1\nbeta = 2\ngamma = {}\nend()\n"
    text = block.format(3) + "\n" + block.format(4)
    old = block.format(5)
    assert "2 times" in refused(text, old, old.replace("beta = 2", "beta = 9"))


def test_replace_all_changes_every_place():
    assert replace("a\na\nb\n", "a", "c", replace_all=True)[0] == "c\nc\nb\n"
    assert replace("  a \n  a\t\nb\n", "  a\n", "  c\n", replace_all=True)[0] == "  c\n  c\nb\n"


def test_closest_place_is_shown():
    message = refused(CODE, "        self.lamps(True)\n        return False", "x")
    assert message.startswith("old_string is not in the file; the closest is\n5|")
    assert "5|        self.lights(True)\n6|        return True" in message
    assert refused(CODE, "entirely different", "x") == "old_string is not in the file"


def test_applied_edit_is_reported():
    message = refused(CODE, "        self.lamps(True)", "        self.lights(False)")
    assert message.endswith("but new_string is, at line 11")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("\n", "x"), ("same", "same")])
def test_empty_or_equal_text_is_an_error(old, new):
    with pytest.raises(ToolArgumentsInvalid):
        locate("same\n", old, new)


def test_large_file_is_searched_quickly():
    text = "".join(f"line {number}\n" for number in range(100_000))
    assert replace(text, "line  99999", "last")[0].endswith("\nlast\n")
    assert "not in the file" in refused(text, "nothing like it\nat all\nor so\nhere", "x")
