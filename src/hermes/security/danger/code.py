"""Code passed as text: shells, interpreters and their input; programs under false names."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from hermes.security.danger.context import ShellContext, locate_word
from hermes.security.danger.rule import Rule, always, has_option, says, says_exactly, verb
from hermes.security.shell.expansion import known_input
from hermes.security.shell.launchers import SHELLS
from hermes.security.shell.model import UNKNOWN, Invocation
from hermes.security.shell.reader import FORK_BOMB, FORK_LOOP, SELF_START
from hermes.security.shell.wrappers import (
    interpreter_name,
    option_values,
    reads_commands,
    shell_text,
)

# Interpreters, and the programs that supply them with code.

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
"""Short options followed by code."""
INLINE_WORDS = frozenset({
    "--eval", "--print", "--exec", "-eval", "-command", "-encodedcommand", "-enc", "-encoded",
    "--command", "eval", "-ec", "--execute", "--evaluate", "--run", "--process-code",
})  # fmt: skip
"""Long options and subcommands followed by code."""
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
"""Options of interpreters with a value that is not code."""

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


LONGEST_TEXT = 20_000  #: Longer code is checked only up to here.
LONGEST_SCRIPT = 2_000  #: A longer sed or perl program is not analysed but needs approval.
_SED_LIKE = re.compile(
    r"(?:s|tr|y)([/|#,!@])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1[gimsxr]*;?", re.DOTALL
)
_DANGEROUS_CODE = re.compile(
    r"rmtree|os\.(system|remove|unlink|popen|exec|fork|kill|chmod|spawn)|subprocess|pty\.spawn"
    r"|\bsocket\b.*\b(connect|bind)|child_process|execSync|rmSync|unlinkSync|rm_rf|FileUtils\.rm"
    r"|\bsystem\s*\(|\bexec\s*\(|\beval\s*\(|__import__|/etc/|\.ssh|\bunlink\b|shell_exec"
    r"|DROP\s+(TABLE|DATABASE)|b64decode|/dev/(sd|tcp)|\brm\s+-\w*[rf]|shutil\.(rmtree|move)"
    r"|\brmdir\w*\s*\(|\.rm\(|\.unlink\(|spawnSync|Deno\.(remove|run|Command)|File\.delete"
    r"|Process\.kill|process\.kill|169\.254\.169\.254|passthru|popen|qx[({/]|removeSync|rimraf",
    re.IGNORECASE | re.DOTALL,
)
_AWK_PIPE = re.compile(r"\|&?\s*\"\s*(\w*)")
_AWK_FILTERS = frozenset({"sort", "uniq", "column", "head", "tail", "wc"})
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\|\s*getline|\|&|/inet\d?/|@load|\|\s*\w+\s*[;}]")
_SED_RUNS = re.compile(
    r"(?:^|[;{\n]|\d|\$|/)\s*e(?:\s+\S|\s*$|;)"
    r"|(?:^|[;{\s/0-9])s(\W)(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1\w*e",
    re.DOTALL,
)
_EDITOR_RUNS = re.compile(
    r"(^|[:|\s+])!|\b(system|python3?|py3?|lua|perl|ruby|exec(ute)?|terminal|source|write|shell"
    r"|shell-command|delete-file|call-process)\b|:w\s"
)
_EDITOR_OPTIONS = frozenset({
    "-c", "--cmd", "-ex", "--ex", "-ec", "-sc", "-Es", "-S", "--eval", "-eval", "-nx", "-x", "-o",
})  # fmt: skip
_CLIENT_RUNS = re.compile(
    r"\\!|(^|\n)\s*\.(shell|system)\b|(^|\s|;)system\s+\S|program\s+'|xp_cmdshell|(^|\n)\s*!\w"
    r"|into\s+(out|dump)file|sys_exec|lo_export|pg_read_file|load_file\(",
    re.IGNORECASE,
)
_REMOTE_SHELL = re.compile(r"(?:^|[\s/])(?:ba|z|da|k|a)?sh(?:\s+-[a-z]+)*\s*\Z")
_DESCRIPTOR = re.compile(r"/(dev|proc/self)/fd/")
_ELSEWHERE = re.compile(r"(^|\s|=)(git\+)?http://(?!localhost|127\.)|--trusted-host")
_INDEX_OPTION = re.compile(r"(--?(extra-)?index(-url)?|-f|--find-links|--registry|-i)[ =]\S+")
_NOT_LAUNCHERS = frozenset({
    "find", "fd", "tar", "git", "zip", "rsync", "split", "sort", "man", "scp", "sftp", "vim", "awk",
})  # fmt: skip
_PACKAGE_HOSTS = frozenset({
    "github.com", "files.pythonhosted.org", "download.pytorch.org", "pypi.org", "gitlab.com",
    "registry.npmjs.org", "storage.googleapis.com", "codeload.github.com", "huggingface.co",
    "repo.anaconda.com",
})  # fmt: skip


def shell_with_text(invocation: Invocation, _context: ShellContext) -> bool:
    return shell_text(invocation) is not None


def escapes(invocation: Invocation, _context: ShellContext) -> bool:
    """`find … -exec sh`: a shell in an unexpected place."""
    return not _NOT_LAUNCHERS.isdisjoint(invocation.via[-1:])


def inline_code(invocation: Invocation, _context: ShellContext) -> bool:
    """Code after `-c` or `-e`, or given as input."""
    base = interpreter_name(invocation.name)
    if base not in INLINE or (base == "perl" and _is_sed(invocation)):
        return False
    if _has_code(invocation, base):
        return True
    fed = bool(invocation.stdin or invocation.upstream or invocation.fed_by)
    asks = has_option(invocation, "V", "--version", "--help", "h")
    return fed and reads_commands(invocation) and not asks


def _has_code(invocation: Invocation, base: str) -> bool:
    """Return whether the command line contains code."""
    letters = INLINE[base]
    python = base in ("python", "pypy", "ipython")
    taking = TAKES_VALUE.get(base, "").split()
    value = False
    for word in invocation.arguments:
        if value:
            value = False
        elif (letters and re.match(rf"-(?!-)[a-zA-Z0]*[{letters}]", word)) or (
            not python and word.partition("=")[0].lower() in INLINE_WORDS
        ):
            return True
        elif word == "-m" or not word.startswith("-"):
            return False
        else:
            value = word.lower() in taking or word in taking
    return False


def _is_sed(invocation: Invocation) -> bool:
    """`perl -pe 's/a/b/'`: only a replacement, as sed would do it."""
    options = [word for word in invocation.arguments if word.startswith("-")]
    bundle = "".join(word[1:] for word in options)
    if not re.fullmatch(r"[0-9pnile.baoriklw]*", bundle) or "p" not in bundle:
        return False
    program = "".join([word for word in invocation.arguments if not word.startswith("-")][:1])
    return len(program) < LONGEST_SCRIPT and bool(_SED_LIKE.fullmatch(program.strip()))


def code_texts(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Yield every text that this program would run as code."""
    if interpreter_name(invocation.name) in INLINE:
        if inline_code(invocation, context):
            yield invocation.text
            yield known_input(invocation) or ""
        yield from (context.texts.get(real, "") for real in executed_files(invocation, context))
    elif invocation.name in ("awk", "gawk", "mawk", "vim", "vi", "ed", "ex", "make", "sed", "gdb"):
        yield invocation.text
        yield invocation.stdin


def forks_without_end(invocation: Invocation, context: ShellContext) -> bool:
    texts = [text for text in code_texts(invocation, context) if text]
    return any(
        pattern.search(text[:LONGEST_TEXT])
        for text in texts
        for pattern in (FORK_LOOP, FORK_BOMB, SELF_START)
    )


def written_code(invocation: Invocation, context: ShellContext) -> bool:
    """A script written by the same command that does what other rules ask about."""
    if not context.texts or interpreter_name(invocation.name) not in INLINE:
        return False
    texts = (context.texts.get(real, "") for real in executed_files(invocation, context))
    return any(_DANGEROUS_CODE.search(text) for text in texts if text)


def executed_files(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Return the files this program runs as code."""
    words, name = invocation.words, invocation.name
    if not words:
        return
    if name in SHELLS or name in ("source", ".") or interpreter_name(name) in INLINE:
        yield from [
            locate_word(w, invocation, context) for w in words[1:] if not w.startswith("-")
        ][:1]
        for redirect in invocation.redirects:
            if redirect.operator == "<":
                yield locate_word(redirect.target, invocation, context)
    elif "/" in words[0]:
        yield locate_word(words[0], invocation, context)


def runs_fetched(invocation: Invocation, context: ShellContext) -> bool:
    return bool(context.fetched) and not context.fetched.isdisjoint(
        executed_files(invocation, context)
    )


def fed_to_shell(invocation: Invocation, _context: ShellContext) -> bool:
    """A shell that runs the output of other programs."""
    if invocation.name == "parallel" and not invocation.arguments:
        return True  # each input line is a command
    if invocation.name == "ssh" and any(each.operator == "<" for each in invocation.redirects):
        return bool(_REMOTE_SHELL.search(invocation.text))
    if invocation.name in SHELLS:
        if (invocation.upstream or invocation.stdin) and reads_commands(invocation):
            return True
        if any(_DESCRIPTOR.match(word) for word in invocation.arguments[:2]) or any(
            redirect.operator == "<&" for redirect in invocation.redirects
        ):
            return True
        return bool(invocation.fed_by) and shell_text(invocation) is None
    if invocation.name in ("source", "."):
        return not invocation.feeders <= HARMLESS_EVAL
    return False


def code_from_network(invocation: Invocation, _context: ShellContext) -> bool:
    coded = interpreter_name(invocation.name) in INLINE
    if coded and any(re.match(r"https?://", word) for word in invocation.arguments[:3]):
        return True
    if not (coded or invocation.name in SHELLS or invocation.name in ("source", ".", "eval")):
        return False
    if not invocation.fed_by and not reads_commands(invocation):
        return False
    return any(source.name in FETCHERS for source in invocation.sources)


def _written_program(invocation: Invocation, context: ShellContext) -> str:
    """Return the text of `-f file` that the same command has written."""
    if not context.texts:
        return ""
    paths = option_values(invocation.arguments, ("-f", "--file"))
    return "\n".join(
        context.texts.get(locate_word(path, invocation, context), "") for path in paths
    )


def built_from_network(invocation: Invocation, _context: ShellContext) -> bool:
    """`make -f <(curl …)`."""
    return not FETCHERS.isdisjoint(invocation.feeders)


def awk_runs(invocation: Invocation, context: ShellContext) -> bool:
    text = f"{invocation.text}\n{_written_program(invocation, context)}".replace("||", "")
    return bool(_AWK_RUNS.search(text)) or not _AWK_FILTERS.issuperset(_AWK_PIPE.findall(text))


def sed_runs(invocation: Invocation, context: ShellContext) -> bool:
    words = invocation.arguments
    if "-f" in words or "--file" in words:
        return bool(_SED_RUNS.search(_written_program(invocation, context)))
    scripts = [word for word in words if not word.startswith("-")][:1]
    scripts += [b for a, b in pairwise(words) if re.match(r"-\w*e$|--exp", a)]
    return any(len(text) > LONGEST_SCRIPT or _SED_RUNS.search(text) for text in scripts)


def editor_runs(invocation: Invocation, _context: ShellContext) -> bool:
    words = invocation.arguments
    texts = [b for a, b in pairwise(words) if a in _EDITOR_OPTIONS]
    texts += [word[1:] for word in words if word.startswith("+")]
    texts += [word.partition("=")[2] for word in words if word.startswith("--eval=")]
    if any(_EDITOR_RUNS.search(text) for text in texts):
        return True
    lines = (known_input(invocation) or "").splitlines()
    return any(re.match(r"\s*(\d*,?\d*|%)!|shell\b", line) for line in lines)


def client_runs(invocation: Invocation, _context: ShellContext) -> bool:
    """Clients of databases and of file transfer that start programs."""
    texts = (*invocation.arguments, known_input(invocation) or "")
    return any(_CLIENT_RUNS.search(text) for text in texts)


def console_fed(invocation: Invocation, _context: ShellContext) -> bool:
    """Code passed to the console of a framework: `echo … | manage.py shell`."""
    console = {"shell", "shell_plus", "tinker", "console", "c"} & set(invocation.arguments[:2])
    return bool(console) and bool(invocation.stdin or invocation.upstream)


def make_runs(invocation: Invocation, _context: ShellContext) -> bool:
    return any(
        word.startswith(("--eval", "SHELL="))
        or word in ("-", "-f-", "/dev/stdin")
        or "$(sh" in word
        for word in invocation.arguments
    )


def in_coprocess(invocation: Invocation, _context: ShellContext) -> bool:
    """`coproc bash`: what is written to it later is run."""
    return "coproc" in invocation.via and reads_commands(invocation)


def macros_run(invocation: Invocation, _context: ShellContext) -> bool:
    texts = [invocation.text, invocation.stdin, *(each.text for each in invocation.upstream)]
    return any("syscmd" in text for text in texts)


def remote_package(invocation: Invocation, _context: ShellContext) -> bool:
    """Packages from a plain URL, whose set-up code runs at once."""
    text = invocation.text
    if not re.search(r"\b(install|add|i|exec|x)\b|^https?:", text):
        return False
    if _ELSEWHERE.search(text):
        return True
    hosts = re.findall(r"(?:^|\s)https://([\w.-]+)/\S*", _INDEX_OPTION.sub("", text))
    return any(host not in _PACKAGE_HOSTS for host in hosts)


INLINE_CODE, GIVEN = "inline code", "runs code given on the command line"
REMOTE = "remote code"
BUILDERS = "make gmake cmake gradle gradlew ansible-playbook just task mvn bazel"
EDITORS = "vim vi nvim ex ed emacs gdb lldb view less rvim"
CLIENTS = """
    psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus mongosh mongo ftp sftp lftp isql dc gnuplot
"""
CODE_RULES = (
    Rule("shell -c", "runs a command line given as text", " ".join(SHELLS), shell_with_text),
    Rule("shell -c", "runs a command line given as text", "cmd", verb("/c /k")),
    Rule("shell -c", "starts a shell out of another program", " ".join(SHELLS), escapes),
    Rule(INLINE_CODE, GIVEN, "", inline_code),
    Rule("fork bomb", "starts processes without end", "", forks_without_end, refused=True),
    Rule(INLINE_CODE, "runs code this command has just written", "", written_code),
    Rule(INLINE_CODE, "runs commands from an awk program", "awk gawk mawk nawk", awk_runs),
    Rule(INLINE_CODE, "runs commands from a sed program", "sed gsed", sed_runs),
    Rule(INLINE_CODE, "runs commands from an editor or debugger", EDITORS, editor_runs),
    Rule(INLINE_CODE, "runs commands from a client", CLIENTS, client_runs),
    Rule(INLINE_CODE, "runs a script of its own", "nmap", says(r"--script[= ]\S*[/\ue000]")),
    Rule(INLINE_CODE, "runs commands from a makefile given as text", "make gmake", make_runs),
    Rule(INLINE_CODE, GIVEN, "rails rake", says(r"\b(runner|r)\s+['\"]?\S*[ (.](?!rb\b)\S")),
    Rule(INLINE_CODE, GIVEN, "rails manage.py django-admin artisan console", console_fed),
    Rule(INLINE_CODE, GIVEN, "manage.py django-admin", says(r"\bshell\b.*\s(-c|--command)\b")),
    Rule(INLINE_CODE, GIVEN, "artisan drush wp", says(r"(^|\s)(--execute|eval|ev|php-eval)\b")),
    Rule(INLINE_CODE, GIVEN, "mshta rundll32 regsvr32 wmic certutil cscript wscript iex", always),
    Rule(REMOTE, "runs code fetched from the network", "", code_from_network),
    Rule(REMOTE, "runs a file this command has just fetched or decoded", "", runs_fetched),
    Rule(REMOTE, "installs a package from an unknown address",
         "pip pip3 npm pnpm yarn npx gem easy_install uv pipx", remote_package),
    Rule(REMOTE, "runs code fetched from the network", BUILDERS, built_from_network),
    Rule(INLINE_CODE, GIVEN, "python pypy",
         says_exactly(r"-m\s*(timeit\s.*(\bos\.|subprocess|shutil)|pdb\b.*\s-c)")),
    Rule(REMOTE, "runs code fetched from the network", "go", says(r"^run\s+(https?://|-$|/dev/)")),
    Rule("pipe to a shell", "runs what another program prints", "", fed_to_shell),
    Rule("pipe to a shell", "starts a shell that takes commands", " ".join(SHELLS), in_coprocess),
    Rule(INLINE_CODE, "runs commands from macros", "m4 gm4", macros_run),
)  # fmt: skip
MAKES_CODE = FETCHERS | DECODERS
"""Output of these that the same command runs counts as foreign code."""


# Programs whose name does not tell what they are.

_ARGUMENTS = frozenset({"@", "*", *"123456789"})
"""What a shell was started with; a function has its own."""
_DASHES = re.compile("[\u2010-\u2015\u2212]")
_MIXED = re.compile("[A-Za-z][\u0430-\u045f\u0400-\u042f]|[\u0430-\u045f\u0400-\u042f][A-Za-z]")
"""Cyrillic letters next to Latin ones."""
_UNCERTAIN = re.compile(rf"[{UNKNOWN}*?\[]")
_HIJACK = re.compile(
    r"LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|BASH_ENV|PROMPT_COMMAND|PYTHONSTARTUP|PERL5OPT"
    r"|PERL5DB|RUBYOPT|SHELLOPTS|BASH_FUNC_.*|GIT_EXEC_PATH|GIT_TEMPLATE_DIR"
)
_HIJACK_VALUES = {
    "PATH": re.compile(r"(/tmp|/var/tmp|/dev/shm|\.)(/|:|\Z)"),
    "NODE_OPTIONS": re.compile(r".*(--(require|import|loader)|-r\s)"),
    "JAVA_TOOL_OPTIONS": re.compile(r".*-javaagent"),
    "_JAVA_OPTIONS": re.compile(r".*-javaagent"),
}
"""Variables that are harmless with most values."""


def hidden_command(invocation: Invocation, _context: ShellContext) -> bool:
    """The name of the program is known only when the command runs."""
    name = invocation.name
    if not DECODERS.isdisjoint(invocation.named_by):
        return True
    arguments = invocation.uses & _ARGUMENTS - invocation.known.keys()
    if arguments and (not invocation.words or name == "eval"):
        return True
    if name == "eval" and not DECODERS.isdisjoint(invocation.feeders):
        return True
    if name == "eval":
        unknown = any(UNKNOWN in word for word in invocation.arguments)
        return unknown and not (invocation.feeders and invocation.feeders <= HARMLESS_EVAL)
    if not invocation.words or name in ("[", "[["):
        return False
    return bool(_UNCERTAIN.search(name)) or name in ("{}", "%")


def look_alike(invocation: Invocation, _context: ShellContext) -> bool:
    """Letters of another script in the name of a program or host."""
    words = invocation.words
    if words and not words[0].isascii():
        name = words[0].rpartition("/")[2].replace(UNKNOWN, "")
        imitates = _MIXED.search(name) or unicodedata.normalize("NFKC", name).isascii()
        if not name.isascii() and ("/" not in words[0] or imitates):
            return True
    if any(not word.isascii() and _imitates(word) for word in words[1:]):
        return True
    hosts = (re.match(r"\w+://([^/]*)", word) for word in words[1:] if not word.isascii())
    return any(host and not host[1].replace(UNKNOWN, "").isascii() for host in hosts)


def _imitates(word: str) -> bool:
    """A wide `｜`, a long dash before letters, letters of two scripts: not what they look like."""
    if _MIXED.search(word) and not re.search(r"\s", word):
        return True
    plain = _DASHES.sub("-", unicodedata.normalize("NFKC", word))
    return plain != word and bool(re.fullmatch(r"[|&;<>]{1,3}|--?[A-Za-z][\w-]*", plain))


def hijacks(invocation: Invocation, context: ShellContext) -> bool:
    """Variables that make other programs load or run something."""
    pairs = list(invocation.assignments)
    if invocation.name in ("env", "sudo", "export", "doas"):
        words = (word.partition("=") for word in invocation.arguments)
        pairs += [(name, value) for name, found, value in words if found]
    for name, value in pairs:
        if name == "PATH" and value.startswith((f"{context.home}/", f"{context.folder}/")):
            continue
        risky = _HIJACK_VALUES.get(name)
        if (value and _HIJACK.fullmatch(name)) or (risky and risky.match(value)):
            return True
    return False


HIDDEN = "hidden command"
HIDDEN_RULES = (
    Rule(HIDDEN, "the program to run is known only at run time", "", hidden_command),
    Rule(HIDDEN, "makes a name stand for another program", "hash", says_exactly(r"(^|\s)-p\b")),
    Rule(HIDDEN, "takes its parts from another folder", "git", says_exactly(r"(^|\s)--exec-path=")),
    Rule(HIDDEN, "takes its hooks from another folder", "git",
         says(r"\bconfig\s.*(core\.hookspath|init\.templatedir)[ =][/~]")),
    Rule(HIDDEN, "connects through another program", "scp sftp", says_exactly(r"(^|\s)-S\s*\S*/")),
    Rule(HIDDEN, "loads a program into the shell", "enable", says_exactly(r"(^|\s)-f\b")),
    Rule(HIDDEN, "starts a program through the loader", "ld.so", always),
    Rule(HIDDEN, "changes what programs load or run", "", hijacks),
    Rule("hidden characters", "looks like another program or address", "", look_alike),
)  # fmt: skip
