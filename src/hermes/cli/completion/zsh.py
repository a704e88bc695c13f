"""The script for zsh."""

import shlex
from collections.abc import Iterator

from hermes.cli.completion.bash import option_keys, quote_words
from hermes.cli.completion.tree import CommandNode

SCRIPT = """\
#compdef hermes
# zsh completion of hermes, written by `hermes completion zsh`

_hermes_children() {{
    case $1 in
{children}
        *) offers=() ;;
    esac
}}

_hermes_options() {{
    case $1 in
{options}
        *) offers=() ;;
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
        *) kind= ;;
    esac
}}

_hermes_argument() {{
    case $1 in
{arguments}
        *) kind= ;;
    esac
}}

_hermes_profiles() {{
    local root=${{HERMES_HOME:-$HOME/.hermes}}
    [[ $root == */profiles/* ]] && root=${{root%/profiles/*}}
    offers=(default $root/profiles/*(N/:t))
}}

_hermes_offer() {{
    case $kind in
        '') return 1 ;;
        @files) _files; return ;;
        @folders) _files -/; return ;;
        @profiles) _hermes_profiles ;;
        @sessions)
            offers=(${{(f)"$($program ${{profile:+-p}} $profile sessions list --json 2>/dev/null |
                sed -n 's/^ *"id": "\\([^"]*\\)".*/\\1/p')"}}) ;;
        *) offers=(${{=kind}}) ;;
    esac
    compadd -a offers
}}

_hermes() {{
    local at=2 path_=hermes pending= profile= program=$words[1] word kind rest=
    local -i count=0
    local -a offers
    while (( at < CURRENT )); do
        word=$words[at]
        (( at++ ))
        if [[ -n $pending ]]; then
            [[ $pending == (-p|--profile) ]] && profile=$word
            pending=
        elif [[ -n $rest ]]; then
            (( count++ ))
        elif [[ $word == -- ]]; then
            rest=1
        elif [[ $word == --*=* ]]; then
            [[ $word == --profile=* ]] && profile=${{word#*=}}
        elif [[ $word == -* ]]; then
            _hermes_takes_value "$path_|$word" && pending=$word
        else
            _hermes_children "$path_"
            if (( ${{offers[(I)${{(b)word}}:*]}} )); then
                path_="$path_ $word" count=0
            else
                (( count++ ))
            fi
        fi
    done
    if [[ -n $pending ]]; then
        _hermes_values "$path_|$pending"
        _hermes_offer
    elif [[ -z $rest && $words[CURRENT] == --*=* ]]; then
        _hermes_values "$path_|${{words[CURRENT]%%=*}}"
        compset -P '*='
        _hermes_offer
    elif [[ -z $rest && $words[CURRENT] == -* ]]; then
        _hermes_options "$path_"
        _describe -o option offers
    else
        _hermes_children "$path_"
        if (( count == 0 && $#offers )); then
            _describe command offers
        else
            _hermes_argument "$path_|$count"
            _hermes_offer
        fi
    fi
}}

if [[ $funcstack[1] == _hermes ]]; then
    _hermes "$@"
else
    compdef _hermes hermes
fi
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
            offers = [_describe(child.name, child.summary) for child in node.children]
            yield f"        {shlex.quote(node.path)}) offers=({' '.join(offers)}) ;;"


def _options(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        offers = [
            _describe(name, option.summary) for option in node.options for name in option.names
        ]
        yield f"        {shlex.quote(node.path)}) offers=({' '.join(offers)}) ;;"


def _describe(word: str, summary: str) -> str:
    return shlex.quote(f"{word.replace(':', chr(92) + ':')}:{summary}")


def _takes(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        if keys := option_keys(node):
            yield f"        {' | '.join(map(shlex.quote, keys))}) return 0 ;;"


def _values(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for option in node.options:
            if text := quote_words(option.values):
                keys = [shlex.quote(f"{node.path}|{name}") for name in option.names]
                yield f"        {' | '.join(keys)}) kind={shlex.quote(text)} ;;"


def _arguments(nodes: list[CommandNode]) -> Iterator[str]:
    for node in nodes:
        for number, values in enumerate(node.arguments):
            if text := quote_words(values):
                last = node.repeats and number == len(node.arguments) - 1
                pattern = shlex.quote(f"{node.path}|") + ("*" if last else str(number))
                yield f"        {pattern}) kind={shlex.quote(text)} ;;"
