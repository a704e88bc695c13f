"""Which programs a command line would start, and with which words."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes.security.shell.model import UNKNOWN, CommandTooComplex
from hermes.security.shell.reader import LONGEST, parse_command
from hermes.security.shell.words import extract_heredocs
from hermes.security.shell.wrappers import unfold_command


def words(command: str) -> list[tuple[str, ...]]:
    return [
        invocation.words for invocation in parse_command(command).invocations if invocation.words
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo 'a b' \"c d\" e\\ f", ("echo", "a b", "c d", "e f")),
        ("echo a'b'\"c\"$'\\x64'", ("echo", "abcd")),
        ("x=a; echo $x.b/$x-c \"$x d\"", ("echo", "a.b/a-c", "a d")),
        ("x='a b'; echo $x \"$x\"", ("echo", "a", "b", "a b")),
        ("x=(a 'b c'); echo ${x[1]} \"${x[@]}\"", ("echo", "b", "c", "a", "b c")),
        ("x=abcdef; echo ${x:1:2} ${x: -2} ${x/c/X}", ("echo", "bc", "ef", "abXdef")),
        ("x=abcdef; echo ${x#ab} ${x%ef}", ("echo", "cdef", "abcd")),
        ("x=a.b.c; echo ${x%%.*} ${x##*.} ${x//./-} ${x^^}", ("echo", "a", "c", "a-b-c", "A.B.C")),
        ("echo ${nothing:-a} ${nothing:+b}", ("echo", "a", "b")),
        ("x=y; y=z; echo ${!x}", ("echo", "z")),
        ("echo {a,b}c {1,2}", ("echo", "ac", "bc", "1", "2")),
        ("{echo,a,b}", ("echo", "a", "b")),
        ("echo $(echo a | rev) `printf '%s-%s' b c`", ("echo", "a", "b-c")),
        ("echo $(date)", ("echo", UNKNOWN)),
        ("set -- a b; echo $2 \"$@\"", ("echo", "b", "a", "b")),
        ("read x y <<< 'a b c'; echo $y", ("echo", "b", "c")),
        ("ec\\\nho a \\\n  b", ("echo", "a", "b")),
        ("echo 2>x a >y b", ("echo", "a", "b")),
        ('$"echo" $"a b"', ("echo", "a b")),
        ("echo {1..3} {a..c}x", ("echo", "1", "2", "3", "ax", "bx", "cx")),
        ("pushd a; popd; echo $PWD", ("echo", UNKNOWN)),
        ("builtin eval 'echo a'", ("echo", "a")),
        ("time { echo a; }", ("echo", "a")),
        ("! ( echo a )", ("echo", "a")),
    ],
)  # fmt: skip
def test_words_are_what_the_shell_makes_of_them(command: str, expected: tuple[str, ...]) -> None:
    assert words(command)[-1] == expected


@pytest.mark.parametrize(
    "command",
    [
        "a | b | c\nls x 2>y",
        "a | b | c -d\n\nls x",
        "a > b\n\\ls x",
        "a\n\\ls x",
        "a | b | c <<E\ntext\nE\nls x 2>y",
        "if a; then a | b | c\nls x 2>y; fi",
    ],
)
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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sudo -u bob -- ls x", ("ls", "x")),
        ("env -i A=1 nice -n 5 timeout -k 1 5 ls", ("ls",)),
        ("docker run --rm --name n -e A=b -v c:/d image ls x", ("ls", "x")),
        ("docker compose -f x.yml exec -T web ls", ("ls",)),
        ("ssh -p 22 -i key host ls x", ("ls", "x")),
        ("kubectl exec -n a pod -c c -- ls x", ("ls", "x")),
        ("find . -name a -exec ls {} \\;", ("ls", "{}")),
        ("echo a b | xargs -n1 ls", ("ls", "a", "b")),
        ("bash -lc 'ls x'", ("ls", "x")),
        ("echo ls x | sh", ("ls", "x")),
        ("git -c alias.a='!ls x' a", ("ls", "x")),
        ("python3 -m pip list", ("pip", "list")),
        ("python3 -X utf8 -m pip list", ("pip", "list")),
        ("coreutils --coreutils-prog=ls x", ("ls", "x")),
        ("arch -x86_64 ls x", ("ls", "x")),
        ("no-such-wrapper enter box rm -r x", ("rm", "-r", "x")),
        ("no-such-wrapper --script 'rm -r x'", ("rm", "-r", "x")),
        ("flatpak run --command=sh app -c ls", ("sh", "-c", "ls")),
        ("tar xf a --checkpoint-action=exec='ls x'", ("ls", "x")),
    ],
)
def test_the_program_behind_a_wrapper_is_found(command: str, expected: tuple[str, ...]) -> None:
    assert expected in [invocation.words for invocation in unfold_command(command).invocations]


@pytest.mark.parametrize(
    "command",
    [
        "grep rm -r src", "timeout 5 grep bash -c x", "git log -- rm -r", "apt install python -y",
        "command -v rm -r", "./tool 'rm -r x'", "tool 'rm -r x'",
    ],
)  # fmt: skip
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
