for url in https://github.com/alice/parser.git ssh://git@github.com/alice/parser git@github.com:alice/parser.git; do
    test "$(printf '%s' "$url" | sed -E 's#^(https?://[^/]*/|ssh://[^/]*/|[^@]*@[^:]*:)##; s#\.git/?$##')" = alice/parser
done
