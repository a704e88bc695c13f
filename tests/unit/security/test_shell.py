"""Which programs a command line would start, and with which words."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes.security.shell.model import UNKNOWN, CommandTooComplex
from hermes.security.shell.reader import LONGEST, parse_command
from hermes.security.shell.words import extract_heredocs
from hermes.security.shell.wrappers import unfold_command
from tests.cases import cases

CASES = cases(__file__)


def words(command: str) -> list[tuple[str, ...]]:
    return [
        invocation.words for invocation in parse_command(command).invocations if invocation.words
    ]


@pytest.mark.parametrize(("command", "expected"), CASES["words"])
def test_words_are_what_the_shell_makes_of_them(command, expected):
    assert [word.replace(UNKNOWN, "<unknown>") for word in words(command)[-1]] == expected


@pytest.mark.parametrize("command", CASES["a line ends where the shell ends it"])
def test_a_line_ends_where_the_shell_ends_it(command: str) -> None:
    assert ("ls", "x") in words(command)


def test_variables_remember_whose_output_they_hold() -> None:
    for command in (
        "x=$(find .); rm $x",
        'mapfile -t x < <(find .); rm "${x[@]}"',
        "find . | while read -r x; do rm $x; done",
    ):
        last = parse_command(command).invocations[-1]
        assert "find" in {source.name for source in last.sources}, command


def test_here_documents_are_lifted_out_and_the_rest_of_the_line_stays() -> None:
    lifted = extract_heredocs("cat <<A <<'B' | wc; ls # <<C\none\nA\ntwo $x\nB\npwd")
    assert [(document.text, document.literal) for document in lifted.documents] == [
        ("one", False),
        ("two $x", True),
    ]
    assert words("cat <<A <<'B' | wc; ls # <<C\none\nA\ntwo\nB\npwd") == [
        ("cat",),
        ("wc",),
        ("ls",),
        ("pwd",),
    ]


@pytest.mark.parametrize(
    "command",
    ["echo '<<A'\nls", 'echo "<<A"\nls', "echo $((1<<2))\nls", "# <<A\nls", "cat <<< A\nls"],
)
def test_text_resembling_a_here_document_is_kept(command: str) -> None:
    assert extract_heredocs(command).documents == ()
    assert words(command)[-1] == ("ls",)


def test_a_here_document_without_an_end_is_not_readable() -> None:
    assert parse_command("cat <<A\nls").broken


def test_the_text_of_a_here_document_reaches_its_program() -> None:
    (cat, bash) = parse_command("x=1; cat <<A > f; bash <<'B'\n$x\nA\n$x\nB").invocations[1:]
    assert (cat.stdin, bash.stdin) == ("1", "$x")


def test_redirects_belong_to_the_last_of_a_list_and_of_a_pipe() -> None:
    found = {each.name: each.redirects for each in parse_command("a && b | c > f").invocations}
    assert not found["a"]
    assert not found["b"]
    assert found["c"][0].target == "f"


def test_functions_are_read_where_they_are_called() -> None:
    assert words('f() { g "$@" $1; }; f a b') == [("f", "a", "b"), ("g", "a", "b", "a")]
    assert words("f() { g $1; }") == [("g", UNKNOWN)]


@pytest.mark.parametrize(
    "command", ["f() { f | f & }; f", "f() { f & }; f", "f() { f | f; }; f", "while :; do x & done"]
)
def test_a_fork_bomb_is_known_by_its_shape(command: str) -> None:
    assert parse_command(command).bomb


@pytest.mark.parametrize(
    "command",
    ["f() { f; }; f", "while :; do x & wait; done", "for i in 1 2; do x & done", "f() { g & }; f"],
)
def test_other_loops_and_recursion_are_not(command: str) -> None:
    assert not parse_command(command).bomb


@pytest.mark.parametrize(("command", "expected"), CASES["the program behind a wrapper is found"])
def test_the_program_behind_a_wrapper_is_found(command, expected):
    assert expected in [
        list(invocation.words) for invocation in unfold_command(command).invocations
    ]


@pytest.mark.parametrize("command", CASES["quoted text is not a program"])
def test_quoted_text_is_not_a_program(command: str) -> None:
    assert not {"rm", "bash", "python"} & {
        each.name for each in unfold_command(command).invocations
    }


def test_too_long_command_is_not_parsed() -> None:
    with pytest.raises(CommandTooComplex):
        parse_command("a" * (LONGEST + 1))


@pytest.mark.parametrize("letter", ["é", "中", "😀", "\U000e0001", "\U0010ffff", "ÿ", "\xff\xc0"])
def test_letters_of_every_kind_come_through(letter: str) -> None:
    # The scanner of the grammar crashes the process at some letters after a brace.
    assert words(f"echo a{{{letter}}} '{letter}' \"{letter}\"")[-1][-2:] == (letter, letter)


def test_commands_can_be_read_from_many_threads() -> None:
    commands = [f"for i in {n}; do echo $i | wc -{n}; done" for n in range(400)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(words, commands))
    assert found == [[("echo", str(n)), ("wc", f"-{n}")] for n in range(400)]
