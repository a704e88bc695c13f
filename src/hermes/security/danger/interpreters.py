"""Interpreters, and the programs that bring them code."""

INLINE = {
    "python": "c", "pypy": "c", "ipython": "c", "micropython": "c", "perl": "eE", "raku": "e",
    "ruby": "e", "jruby": "e", "node": "ep", "nodejs": "ep", "deno": "", "bun": "ep", "php": "rBRE",
    "lua": "e", "luajit": "e", "rscript": "e", "r": "e", "julia": "eE", "osascript": "e",
    "tclsh": "", "wish": "", "expect": "c", "groovy": "e", "scala": "e", "elixir": "e", "erl": "",
    "ocaml": "e", "racket": "e", "guile": "c", "sbcl": "", "clojure": "e", "clj": "e", "bb": "e",
    "octave": "", "swift": "e", "ghci": "e", "ghc": "e", "runghc": "e", "irb": "e", "tsx": "ep",
    "ts-node": "ep", "pwsh": "ce", "powershell": "ce", "jshell": "", "emacs": "", "janet": "e",
    "coffee": "e", "psysh": "",
}  # fmt: skip
"""The short options after which code stands."""
INLINE_WORDS = frozenset({
    "--eval", "--print", "--exec", "-eval", "-command", "-encodedcommand", "-enc", "-encoded",
    "--command", "eval", "-ec", "--execute", "--evaluate", "--run", "--process-code",
})  # fmt: skip
"""Long options and subcommands after which code stands."""
TAKES_VALUE = {
    "python": "-W -X -Q --check-hash-based-pycs", "pypy": "-W -X --jit", "ipython": "--profile",
    "perl": "-I -M", "ruby": "-I -r -C -E -W -K", "jruby": "-I -r -C -J",
    "node": """-r --require --import --loader --experimental-loader --input-type -C --conditions
               --env-file --title --icu-data-dir --openssl-config --inspect-port""",
    "nodejs": "-r --require --import --loader --input-type", "tsx": "--tsconfig -r --import",
    "ts-node": "-P --project -r --require -O -C", "bun": "-r --preload --cwd -c --config",
    "php": "-d -c -z -t -S", "lua": "-l", "luajit": "-l -j -O", "osascript": "-l -s",
    "julia": "-J -p -t -L -C -H -m", "rscript": "--encoding", "r": "-d -g --encoding",
    "groovy": "-cp --classpath -D -c", "elixir": "-r -pr -pa -pz", "racket": "-l -t -k -I -p -r",
    "pwsh": "-executionpolicy -ep -w -windowstyle -workingdirectory -configurationname",
    "powershell": "-executionpolicy -ep -ex -w -windowstyle -version -psconsolefile",
    "guile": "-L -C -l -e", "scala": "-cp -classpath -d", "deno": "", "swift": "-I -L -F",
    "raku": "-I -M", "clojure": "-Sdeps", "bb": "-cp --classpath", "ocaml": "-I",
}  # fmt: skip
"""Options of interpreters with a value of their own that is not code."""

FETCHERS = frozenset({
    "curl", "wget", "fetch", "aria2c", "http", "https", "lwp-request", "nc", "ncat", "netcat",
    "lynx", "w3m", "xh", "socat", "telnet", "ftp", "tftp", "openssl", "dig", "axel", "curlie",
    "scp", "invoke-webrequest", "iwr", "lwp-download", "links", "elinks", "gsutil", "aws", "ssh",
    "nslookup",
})  # fmt: skip
DECODERS = frozenset({
    "base64", "base32", "xxd", "openssl", "gpg", "gunzip", "zcat", "uudecode", "rev", "bzcat",
    "xzcat", "gbase64", "basenc", "b64decode",
})  # fmt: skip
HARMLESS_EVAL = frozenset({
    "ssh-agent", "pyenv", "rbenv", "nodenv", "direnv", "brew", "conda", "fnm", "zoxide", "mamba",
    "dircolors", "opam", "minikube", "luarocks", "starship", "mise", "keychain", "gpg-agent",
    "micromamba", "jenv", "goenv", "tfenv", "thefuck", "fzf", "register-python-argcomplete", "gh",
    "kubectl", "docker-machine", "atuin", "rtx", "asdf", "pip", "pipx", "podman", "npm", "rustup",
    "hub", "lesspipe", "resize", "tmux", "oh-my-posh", "poetry", "uv", "just", "helm", "docker",
    "git", "dirname", "pwd", "cd", "hermes", "aws_completer", "flux", "kind", "nodebrew",
})  # fmt: skip
"""Programs whose output is meant for `eval "$(…)"` and `source <(…)`."""
