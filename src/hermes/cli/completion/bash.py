"""The script for bash."""

import shlex
from collections.abc import Iterator

from hermes.cli.completion.tree import CommandNode, CompletionValues

SCRIPT = """\
# bash completion of hermes, written by `hermes completion bash`

_hermes_children() {{
    case $1 in
{children}
        *) _hermes_words= ;;
    esac
}}

_hermes_options() {{
    case $1 in
{options}
        *) _hermes_words= ;;
    esac
}}

_hermes_takes_value() {{
    case $1 in
{takes}
        *) return 1 ;;
    esac
}}

_hermes_values() {{
    case $1 in
{values}
        *) _hermes_words= ;;
    esac
}}

_hermes_argument() {{
    case $1 in
{arguments}
        *) _hermes_words= ;;
    esac
}}

_hermes_profiles() {{
    local root=${{HERMES_HOME:-$HOME/.hermes}} each
    case $root in */profiles/*) root=${{root%/profiles/*}} ;; esac
    _hermes_words=default
    for each in "$root"/profiles/*/; do
        [ -d "$each" ] && each=${{each%/}} && _hermes_words="$_hermes_words ${{each##*/}}"
    done
}}

_hermes_sessions() {{
    _hermes_words=$("$1" ${{2:+-p "$2"}} sessions list --json 2>/dev/null |
        sed -n 's/^ *"id": "\\([^"]*\\)".*/\\1/p')
}}

_hermes_offer() {{
    local IFS=$' \\t\\n' current=$1 program=$2 profile=$3
    case $_hermes_words in
        '@files')
            compopt -o filenames 2>/dev/null
            IFS=$'\\n' COMPREPLY=($(compgen -f -- "$current"))
            return ;;
        '@folders')
            compopt -o filenames 2>/dev/null
            IFS=$'\\n' COMPREPLY=($(compgen -d -- "$current"))
            return ;;
        '@profiles') _hermes_profiles ;;
        '@sessions') _hermes_sessions "$program" "$profile" ;;
    esac
    COMPREPLY=($(compgen -W "$_hermes_words" -- "$current"))
}}

_hermes() {{
    local IFS=$' \\t\\n' path=hermes pending= profile= word at=1 count=0 rest=
    local program=${{COMP_WORDS[0]}} current=${{COMP_WORDS[COMP_CWORD]}} _hermes_words=
    COMPREPLY=()
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${{COMP_WORDS[at]}}
        at=$((at + 1))
        if [ "$word" = = ]; then
            continue
        elif [ -n "$pending" ]; then
            case $pending in -p | --profile) profile=$word ;; esac
            pending=
        elif [ -n "$rest" ]; then
            count=$((count + 1))
        elif [ "$word" = -- ]; then
            rest=1
        elif [ "${{word#-}}" != "$word" ]; then
            _hermes_takes_value "$path|$word" && pending=$word
        else
            _hermes_children "$path"
            case " $_hermes_words " in
                *" $word "*) path="$path $word" count=0 ;;
                *) count=$((count + 1)) ;;
            esac
        fi
    done
    [ "$current" = = ] && current=
    if [ -n "$pending" ]; then
        _hermes_values "$path|$pending"
    elif [ -z "$rest" ] && [ "${{current#-}}" != "$current" ]; then
        _hermes_options "$path"
    else
        _hermes_children "$path"
        if [ -z "$_hermes_words" ] || [ "$count" -gt 0 ]; then
            _hermes_argument "$path|$count"
        fi
    fi
    _hermes_offer "$current" "$program" "$profile"
}}

complete -F _hermes hermes
"""


def script(root: CommandNode) -> str:
    nodes = list(root.all())
    return SCRIPT.format(
        children="\n".join(_children(nodes)),
        options="\n".join(_options(nodes)),
        takes="\n".join(_takes(nodes)),
        values="\n".join(_option_values(nodes)),
        arguments="\n".join(_arguments(nodes)),
    )


def _children(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        if node.children:
            yield _case([node.path], " ".join(child.name for child in node.children))


def _options(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        names = [name for option in node.options for name in option.names]
        yield _case([node.path], " ".join(names))


def _takes(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        keys = option_keys(node)
        if keys:
            yield f"        {_patterns(keys)}) return 0 ;;"


def option_keys(node: CommandNode) -> list[str]:
    """Return `path|option` for every option that takes a value."""
    taking = [option for option in node.options if option.takes_value]
    return [f"{node.path}|{name}" for option in taking for name in option.names]


def _option_values(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for option in node.options:
            if text := quote_words(option.values):
                yield _case([f"{node.path}|{name}" for name in option.names], text)


def _arguments(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for number, values in enumerate(node.arguments):
            if text := quote_words(values):
                last = node.repeats and number == len(node.arguments) - 1
                pattern = shlex.quote(f"{node.path}|") + ("*" if last else str(number))
                yield f"        {pattern}) _hermes_words={shlex.quote(text)} ;;"


def quote_words(values: CompletionValues) -> str:
    return f"@{values.source}" if values.source else " ".join(values.words)


def _case(keys: list[str], words: str) -> str:
    return f"        {_patterns(keys)}) _hermes_words={shlex.quote(words)} ;;"


def _patterns(keys: list[str]) -> str:
    return " | ".join(shlex.quote(key) for key in keys)
