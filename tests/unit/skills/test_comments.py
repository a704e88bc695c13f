"""Comments of authors do not reach the model."""

import pytest

from hermes.skills.parse import strip_comments


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("no comment", "no comment"),
        ("a\n<!-- tried -->\nb", "a\nb"),
        ("  <!-- tried -->  \n```bash\nls\n```", "```bash\nls\n```"),
        ("a\n<!-- one\n\ntwo -->\nb", "a\nb"),
        ("<!-- a --><!-- b --> text", "<!-- a --><!-- b --> text"),
        ("write `<!-- x -->` there", "write `<!-- x -->` there"),
        ("text <!-- x -->", "text <!-- x -->"),
        ("<!-- a --> text\nb\n<!-- c -->\nd", "<!-- a --> text\nb\nd"),
        ("<!-- never closed\nb\n<!-- c -->\nd", "<!-- never closed\nb\nd"),
        ("<!-- never closed\nb", "<!-- never closed\nb"),
        ("<!-- a\nends --> here\nb", "<!-- a\nends --> here\nb"),
        ("```html\n<!-- x -->\n```\n<!-- y -->", "```html\n<!-- x -->\n```"),
        ("~~~~\n~~~\n<!-- x -->\n~~~~\n<!-- y -->\nz", "~~~~\n~~~\n<!-- x -->\n~~~~\nz"),
        ("> ```\n> <!-- x -->\n> ```\n<!-- y -->\nz", "> ```\n> <!-- x -->\n> ```\nz"),
        ("```a``` b\n<!-- x -->\nc", "```a``` b\nc"),
        ("<!-- a\n```\n-->\nb\n<!-- c -->", "b"),
    ],
)
def test_only_comments_on_lines_of_their_own_go(text: str, left: str):
    assert strip_comments(text) == left


def test_a_flood_of_open_comments_is_read_once():
    text = "<!--\n" * 100_000
    assert strip_comments(text) == text
