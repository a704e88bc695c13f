# Completion of hermes. `hermes completion` puts what to offer in place of ENTRIES.
_hermes_lookup() {
    case $1 in
ENTRIES
        *) return 1 ;;
    esac
}

_hermes() {
    local IFS=$' \t\n' command=hermes option= profile= offers= rest= prefix= at=1 count=0
    local word root each
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        at=$((at + 1))
        if [ "$word" = = ]; then
            continue
        elif [ -n "$option" ]; then
            case $option in *' -p' | *' --profile') profile=$word ;; esac
            option=
        elif [ -z "$rest" ] && [ "$word" = -- ]; then
            rest=1
        elif [ -z "$rest" ] && [ "${word#-}" != "$word" ]; then
            _hermes_lookup "$command $word" && option="$command $word"
        elif [ -z "$rest" ] && _hermes_lookup "$command $word/"; then
            command="$command $word" count=0
        else
            count=$((count + 1))
        fi
    done
    [ "$current" = = ] && current=
    case $current in --*=*)
        prefix=${current%%=*}= current=${current#*=}
        option="$command ${prefix%=}" ;;
    esac
    offers=
    if [ -n "$option" ]; then
        _hermes_lookup "$option"
    elif [ -z "$rest" ] && [ "${current#-}" != "$current" ]; then
        _hermes_lookup "$command -"
    elif [ "$count" -gt 0 ] || ! _hermes_lookup "$command"; then
        _hermes_lookup "$command $count" || _hermes_lookup "$command *"
    fi
    case $offers in
        @files | @folders)
            compopt -o filenames 2>/dev/null
            [ "$offers" = @files ] && each=-f || each=-d
            IFS=$'\n' COMPREPLY=($(compgen "$each" -- "$current"))
            return ;;
        @profiles)
            root=${HERMES_HOME:-$HOME/.hermes} offers=default
            for each in "${root%/profiles/*}"/profiles/*/; do
                [ -d "$each" ] && each=${each%/} && offers="$offers ${each##*/}"
            done ;;
        @sessions)
            offers=$("$program" ${profile:+-p "$profile"} sessions list --json 2>/dev/null |
                sed -n 's/^ *"id": "\([^"]*\)".*/\1/p') ;;
    esac
    COMPREPLY=($(compgen -P "$prefix" -W "$offers" -- "$current"))
}
