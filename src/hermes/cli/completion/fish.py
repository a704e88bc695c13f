"""The script for fish."""

from collections.abc import Iterator

from hermes.cli.completion.bash import option_keys, quote_words
from hermes.cli.completion.tree import CommandNode

SCRIPT = """\
# fish completion of hermes, written by `hermes completion fish`

function __hermes_children
    switch $argv[1]
{children}
    end
end

function __hermes_options
    switch $argv[1]
{options}
    end
end

function __hermes_takes_value
    switch $argv[1]
{takes}
    end
    return 1
end

function __hermes_values
    switch $argv[1]
{values}
    end
end

function __hermes_argument
    switch $argv[1]
{arguments}
    end
end

function __hermes_profiles
    set -l root $HOME/.hermes
    set -q HERMES_HOME; and test -n "$HERMES_HOME"; and set root $HERMES_HOME
    set root (string replace -r '/profiles/[^/]*/?$' '' -- $root)
    echo default
    for each in $root/profiles/*/
        path basename $each 2>/dev/null; or basename $each
    end
end

function __hermes_offer --argument-names current program profile
    while read -l line
        switch $line
            case '@files'
                __fish_complete_path $current
            case '@folders'
                __fish_complete_directories $current ''
            case '@profiles'
                __hermes_profiles
            case '@sessions'
                set -l which
                test -n "$profile"; and set which -p $profile
                $program $which sessions list --json 2>/dev/null |
                    string replace -rf '^ *"id": "([^"]*)".*' '$1'
            case '*'
                echo $line
        end
    end
end

function __hermes_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l program $tokens[1]
    set -l path hermes
    set -l pending ''
    set -l profile ''
    set -l rest ''
    set -l count 0
    for word in $tokens[2..-1]
        if test -n "$pending"
            contains -- $pending -p --profile; and set profile $word
            set pending ''
        else if test -n "$rest"
            set count (math $count + 1)
        else if test "$word" = --
            set rest 1
        else if string match -q -- '--*=*' $word
            string match -q -- '--profile=*' $word
            and set profile (string replace -r '^[^=]*=' '' -- $word)
        else if string match -q -- '-*' $word
            __hermes_takes_value "$path|$word"; and set pending $word
        else if contains -- $word (__hermes_children $path | string replace -r '\\t.*' '')
            set path "$path $word"
            set count 0
        else
            set count (math $count + 1)
        end
    end
    if test -n "$pending"
        __hermes_values "$path|$pending" | __hermes_offer "$current" $program "$profile"
    else if test -z "$rest"; and string match -q -- '--*=*' $current
        set -l option (string replace -r '=.*' '' -- $current)
        set -l typed (string replace -r '^[^=]*=' '' -- $current)
        __hermes_values "$path|$option" | __hermes_offer "$typed" $program "$profile" |
            string replace -r -- '^' "$option="
    else if test -z "$rest"; and string match -q -- '-*' $current
        __hermes_options $path
    else
        set -l children (__hermes_children $path)
        if test $count -eq 0; and test (count $children) -gt 0
            printf '%s\\n' $children
        else
            __hermes_argument "$path|$count" | __hermes_offer "$current" $program "$profile"
        end
    end
end

complete -c hermes -e
complete -c hermes -f -a '(__hermes_complete)'
"""


def script(root: CommandNode) -> str:
    nodes = list(root.all())
    return SCRIPT.format(
        children="\n".join(_children(nodes)),
        options="\n".join(_options(nodes)),
        takes="\n".join(_takes(nodes)),
        values="\n".join(_values(nodes)),
        arguments="\n".join(_arguments(nodes)),
    )


def _children(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        if node.children:
            yield from _case([node.path], [f"{one.name}\t{one.summary}" for one in node.children])


def _options(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        rows = [f"{name}\t{one.summary}" for one in node.options for name in one.names]
        yield from _case([node.path], rows)


def _takes(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        if keys := option_keys(node):
            yield f"        case {' '.join(map(quote, keys))}"
            yield "            return 0"


def _values(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for option in node.options:
            if text := quote_words(option.values):
                keys = [f"{node.path}|{name}" for name in option.names]
                yield from _case(keys, text.split(" "))


def _arguments(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for number, values in enumerate(node.arguments):
            if text := quote_words(values):
                last = node.repeats and number == len(node.arguments) - 1
                yield from _case([f"{node.path}|{'*' if last else number}"], text.split(" "))


def _case(keys: list[str], rows: list[str]) -> Iterator[str]:
    yield f"        case {' '.join(map(quote, keys))}"
    yield f"            printf '%s\\n' {' '.join(map(quote, rows))}"


def quote(text: str) -> str:
    """Quote for fish, which interprets backslashes in single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
