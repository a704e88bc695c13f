from hermes.ops.transcripts import outline, to_markdown
from tests.unit.ops.transcripts.samples import call, message, record, with_tools


def markdown(*messages, **columns):
    return to_markdown(outline(record(*messages, **columns)))


def test_a_conversation_reads_from_top_to_bottom():
    text = to_markdown(outline(with_tools()))
    assert text.startswith("# list the files\n\n- Session: `20260131_140000_1a2b3c4d`\n")
    places = [
        text.index(piece)
        for piece in (
            "## Turn 1, 2026-01-31",
            "**User**\n\nlist the\nfiles",
            "**Assistant**\n\n<details>\n<summary>Reasoning</summary>\n\nhm &lt;/details>",
            "I look.",
            '▸ **terminal** `{"command": "ls"}`\n\n```text\none\ntwo\n```',
            '✗ **read\\_file** `{"path": "x"}`\n\n```text\nno such file\n```',
            "There are two.\n",
        )
    ]
    assert places == sorted(places)
    assert text.count("**Assistant**") == 1


def test_long_results_are_cut_with_a_note():
    calls = [call("a", "terminal", '{"command": "' + "y" * 1000 + '"}')]
    text = markdown(
        message(1, "assistant", "", tool_calls=calls),
        message(2, "tool", "x" * 5000, tool_call_id="a", tool_name="terminal"),
    )
    assert "x" * 2000 in text
    assert "x" * 2001 not in text
    assert "*(3,000 more characters are not shown)*" in text
    assert "y" * 300 not in text


def test_code_fences_cannot_swallow_what_follows():
    calls = [call("a", "terminal", "`` ` ``")]
    text = markdown(
        message(1, "user", "look:\n```python\nx = 1"),
        message(2, "assistant", "", tool_calls=calls),
        message(3, "tool", "```\ninner\n```", tool_call_id="a", tool_name="terminal"),
    )
    assert "```python\nx = 1\n```\n" in text
    assert "````text\n```\ninner\n```\n````" in text
    assert "**terminal** ``` `` ` `` ```" in text


def test_tags_are_text_except_where_code_shows_them():
    text = markdown(message(1, "user", "<script>x</script> `<b>`\n```\n<i>\n```"))
    assert "&lt;script>x&lt;/script> `<b>`\n```\n<i>\n```" in text


def test_headings_of_a_message_stay_below_those_of_the_page():
    text = markdown(message(1, "assistant", "# Big\n## Less\n###### Least\n#hashtag"))
    assert "### Big\n#### Less\n###### Least\n#hashtag" in text


def test_titles_are_text():
    assert markdown(title="a *b* [c](d) `e`").startswith(r"# a \*b\* \[c\](d) \`e\`")


def test_escape_sequences_are_gone():
    assert "\x1b" not in markdown(message(1, "user", "\x1b[31mred"), title="\x1b]0;x\x07t")
