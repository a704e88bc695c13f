"""Code passed as text, programs under false names, and what a command leaves for its own rest."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from hermes.security.danger.context import (
    EXTRACTS,
    ShellContext,
    filled_folders,
    is_pattern,
    locate_word,
    operands,
    written_paths,
)
from hermes.security.danger.inline import (
    AWKS,
    INLINE,
    CodeEffects,
    has_gap,
    inline_texts,
    read_code,
    written_effects,
)
from hermes.security.danger.system import remote_set
from hermes.security.shell.expansion import known_input, predict_output
from hermes.security.shell.model import UNKNOWN, Invocation, program_name
from hermes.security.shell.reader import FORK_BOMB, FORK_LOOP, SELF_START
from hermes.security.shell.wrappers import (
    SCRIPTED,
    SHELLS,
    interpreter_name,
    option_values,
    reads_commands,
    shell_text,
)
from hermes.security.tables import program_tables, split_values, word_list

FETCHERS, DECODERS = word_list("fetchers"), word_list("decoders")
HARMLESS_EVAL = word_list("harmless_eval")


LONGEST_TEXT = 20_000  #: Longer code is checked only up to here.
LONGEST_SCRIPT = 2_000  #: A longer sed program is not analysed but needs approval.
_SED_RUNS = re.compile(
    r"(?:^|[;{\n]|\d|\$|/)\s*e(?:\s+\S|\s*$|;)"
    r"|(?:^|[;{\s/0-9])s(\W)(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1\w*e",
    re.DOTALL,
)
_EDITOR_RUNS = re.compile(
    r"(^|[:|\s+])!|\b(system|python3?|py3?|lua|perl|ruby|exec(ute)?|terminal|source|write|shell"
    r"|shell-command|delete-file|call-process)\b|:w\s"
)
_EDITOR_OPTIONS = word_list("editor_options")
_CLIENT_RUNS = re.compile(
    r"\\!|(^|\n)\s*\.(shell|system)\b|(^|\s|;)system\s+\S|program\s+'|xp_cmdshell|(^|\n)\s*!\w"
    r"|into\s+(out|dump)file|sys_exec|lo_export|pg_read_file|load_file\("
    r"|child_process|\bfs\.(unlink|rm|write|append)",
    re.IGNORECASE,
)
_REMOTE_SHELL = re.compile(r"(?:^|[\s/])(?:ba|z|da|k|a)?sh(?:\s+-[a-z]+)*\s*\Z")
_ESCAPES = re.compile(r"\\(?:x[0-9a-fA-F]|[0-7]{2})")
_DESCRIPTOR = re.compile(r"/(dev|proc/self)/fd/")
_ELSEWHERE = re.compile(r"(^|\s|=)(git\+)?http://(?!localhost|127\.)|--trusted-host")
_INDEX_OPTION = re.compile(
    r"(?<![\w-])(--?index(-url)?|-f|--find-links|--registry|-i|--repo)[ =]\S+"
)
_FROM_FORGE = re.compile(r"(^|\s)(git\+|github:|gitlab:|bitbucket:|gist:)")
_NOT_LAUNCHERS = word_list("not_launchers")
_PACKAGE_HOSTS = word_list("package_hosts")


def unknown_text(invocation: Invocation, _context: ShellContext) -> bool:
    """`sh -c "$x"`: the text is known only when it runs. Known text is read as commands."""
    text = shell_text(invocation)
    return text is not None and (has_gap(text, invocation) or _has_decoded(invocation))


def _has_decoded(invocation: Invocation) -> bool:
    return not MAKES_CODE.isdisjoint(source.name for source in invocation.fed_by)


def escapes(invocation: Invocation, _context: ShellContext) -> bool:
    """`find … -exec sh`: a shell in an unexpected place."""
    via = invocation.via[-1:]
    if checks_only(invocation):
        return False
    if shell_text(invocation) is not None and via in (("find",), ("fd",), ("awk",)):
        return False  # as common as a loop
    return not _NOT_LAUNCHERS.isdisjoint(via)


_CHECKING_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "rbash"})


def checks_only(invocation: Invocation) -> bool:
    """`bash -n x.sh`: the syntax is checked and nothing is run."""
    words = invocation.arguments
    if invocation.name not in _CHECKING_SHELLS:
        return False
    return words[:1] == ("-n",) and not any(re.match(r"[+-]\w", word) for word in words[1:])


def code_texts(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Yield every text that this program would run as code."""
    if interpreter_name(invocation.name) in INLINE:
        if inline_texts(invocation) is not None:
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


def code_read(invocation: Invocation, context: ShellContext) -> Iterator[CodeEffects]:
    """Yield the effects of code given as text, or written by the same command and now run."""
    effects = read_code(invocation, context)
    if effects is not None:
        yield effects
    base = interpreter_name(invocation.name)
    if context.texts and base in AWKS:
        yield written_effects(base, _written_program(invocation, context), invocation, context)
    elif context.texts and base in ("pip", "uv", "pipx") and "install" in invocation.arguments:
        for folder in operands(invocation)[1:]:
            real = locate_word(f"{folder}/setup.py", invocation, context)
            if text := context.texts.get(real, ""):
                yield written_effects("python", text, invocation, context)
    elif context.texts and base in INLINE:
        for real in executed_files(invocation, context):
            if text := context.texts.get(real, ""):
                yield written_effects(base, text, invocation, context)


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
    elif name == "java":
        yield from (
            locate_word(w, invocation, context) for w in option_values(words[1:], ("-jar",))
        )
    elif "/" in words[0]:
        yield locate_word(words[0], invocation, context)


def runs_fetched(invocation: Invocation, context: ShellContext) -> bool:
    if not context.fetched and not context.unpacked:
        return False
    run = set(executed_files(invocation, context))
    if not context.fetched.isdisjoint(run):
        return True
    return bool(context.unpacked) and _runs_unpacked(run, invocation, context)


_BUILDERS = frozenset({"make", "gmake", "cmake", "npm", "yarn", "pnpm", "pip", "pip3", "cargo"})
_SCRIPT_FILE = re.compile(r"\.(sh|bash|run|py|pl)\Z|/[\w-]+\Z")


def _runs_unpacked(run: set[str], invocation: Invocation, context: ShellContext) -> bool:
    """`curl … | tar xz && ./x/install.sh`; in a clone of a usual host only programs and scripts
    count, because what was cloned is usually built."""
    here = context.real(".", invocation) if invocation.folder else ""
    direct = "/" in invocation.words[0] or invocation.name in SHELLS
    for folder, usual in context.unpacked.items():
        inside = f"{folder.rstrip('/')}/"
        files = [path for path in run if path.startswith(inside)]
        if folder == context.folder:  # not the files of the workspace itself
            files = [path for path in files if "/" in path[len(inside) :]]
        if any(_SCRIPT_FILE.search(path) for path in files) and (direct or not usual):
            return True
        if not usual and invocation.name in _BUILDERS and f"{here}/".startswith(inside):
            return True
    return False


def fed_to_shell(invocation: Invocation, _context: ShellContext) -> bool:
    """A shell that runs the output of other programs."""
    if invocation.name == "parallel" and not invocation.arguments:
        return True  # each input line is a command
    if invocation.name == "ssh" and any(each.operator == "<" for each in invocation.redirects):
        return bool(_REMOTE_SHELL.search(invocation.text))
    if invocation.name in SHELLS and checks_only(invocation):
        return False
    if invocation.name in SHELLS:
        if (invocation.upstream or invocation.stdin) and reads_commands(invocation):
            return not _is_plain_input(invocation)
        if any(_DESCRIPTOR.match(word) for word in invocation.arguments[:2]) or any(
            redirect.operator == "<&" for redirect in invocation.redirects
        ):
            return True
        return bool(invocation.fed_by) and shell_text(invocation) is None
    if invocation.name in ("source", "."):
        piped = invocation.upstream and reads_commands(invocation)
        opened = any(_DESCRIPTOR.match(word) for word in invocation.arguments[:1])
        hidden = (bool(piped) or opened) and not _is_plain_input(invocation)
        return hidden or not invocation.feeders <= HARMLESS_EVAL
    return False


def _is_plain_input(invocation: Invocation) -> bool:
    """Return whether the commands on its input are spelled out in the command line, so that they
    are read as commands."""
    text = known_input(invocation)
    spelled = {source.name for source in invocation.upstream} <= {"echo", "printf", "cat"}
    escaped = any(_ESCAPES.search(source.text) for source in invocation.upstream)
    decoded = not MAKES_CODE.isdisjoint(source.name for source in invocation.fed_by)
    gap = text is None or UNKNOWN in text
    return spelled and not (escaped or decoded or gap)


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
    """`make -f <(curl …)`, `curl … | kubectl apply -f -`."""
    if "-" in invocation.arguments and any(s.name in FETCHERS for s in invocation.upstream):
        return True
    return invocation.name not in _TAKES_NAMES and not FETCHERS.isdisjoint(invocation.feeders)


_TAKES_NAMES = frozenset({"docker", "podman", "kubectl", "oc", "helm"})
"""Output of other programs in their words is usually a name or an image."""


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


def client_writes(invocation: Invocation, context: ShellContext) -> bool:
    """`sqlite3 x.db "select writefile('~/y', …)"`: a statement that writes a file elsewhere."""
    texts = (*invocation.arguments, known_input(invocation) or "")
    paths = (path for text in texts for path in _CLIENT_WRITES.findall(text))
    return any(
        "://" in path or context.is_outside(context.real(path, invocation)) for path in paths
    )


_CLIENT_WRITES = re.compile(
    r"(?:\bwritefile\s*\(\s*'|\bto\s+'|(?:^|\n)\s*\.(?:output|once|backup|save|clone|log|excel)\s+"
    r"|(?:^|\s)\\(?:o|w)\s+)((?:[/~.]|s3:|gs:|https?:)[^'\s]*)",
    re.IGNORECASE,
)

_MAKE_ACTS = re.compile(
    r"\$[({](?![\w*@<^%$()]+[)}])|!=|\b(?:SHELL|include|load|define|export)\b|\.SHELLFLAGS"
)
_PRINTS_ONLY = re.compile(r"@?(?:echo|printf|true|:)(?:[^;&|<>`\n]|\$\(\w+\))*")


def make_runs(invocation: Invocation, _context: ShellContext) -> bool:
    """A makefile given as text, unless it only prints."""
    words = invocation.arguments
    texts: list[str | None] = [*option_values(words, ("--eval", "-E"))]
    files = {*option_values(words, ("-f", "--file", "--makefile")), *words}
    if not files.isdisjoint(("-", "-f-", "/dev/stdin")):
        texts.append(known_input(invocation))
    if any(word.startswith("SHELL=") or "$(sh" in word for word in words):
        return True
    return any(text is None or not _prints_only(text, invocation) for text in texts)


def _prints_only(text: str, invocation: Invocation) -> bool:
    if _MAKE_ACTS.search(text):
        return False
    lines = recipe_commands(text, invocation).splitlines()
    return bool(lines) and all(map(_PRINTS_ONLY.fullmatch, lines))


def in_coprocess(invocation: Invocation, _context: ShellContext) -> bool:
    """`coproc bash`: what is written to it later is run."""
    return "coproc" in invocation.via and reads_commands(invocation)


def macros_run(invocation: Invocation, _context: ShellContext) -> bool:
    texts = [invocation.text, invocation.stdin, *(each.text for each in invocation.upstream)]
    return any("syscmd" in text for text in texts)


def remote_package(invocation: Invocation, _context: ShellContext) -> bool:
    """Packages from a plain URL, whose set-up code runs at once."""
    text = invocation.text
    if invocation.name in ("kubectl", "oc"):
        text = text.partition(" -- ")[0]  # the rest runs in a container
    runs = invocation.name in ("npx", "bunx", "uvx") or (
        re.match(r"(?:tool )?(?:run|dlx|exec|x)\b", text) is not None
    )
    if not (runs or re.search(r"\b(install|add|i|exec|x|dlx|run|apply|create|tap)\b", text)):
        return False
    if text.startswith("repo "):
        return False
    if _ELSEWHERE.search(text) or (runs and _FROM_FORGE.search(text)):
        return True
    plain = text if invocation.name in ("kubectl", "oc", "helm") else _INDEX_OPTION.sub("", text)
    hosts = re.findall(r"(?:^|[\s=@])(?:git\+)?(?:https|ssh)://(?:[\w-]+@)?([\w.-]+)/\S*", plain)
    return any(host not in _PACKAGE_HOSTS for host in hosts)


def named_by_address(invocation: Invocation, _context: ShellContext) -> bool:
    """`npx https://…`: the program itself is an address."""
    first = "".join(invocation.words[:1])
    return bool(re.match(r"(git\+)?(https?|ssh)://|(github|gitlab|gist|bitbucket):\w", first))


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
    "PYTHONPATH": re.compile(r"(/tmp|/var/tmp|/dev/shm)(/|:|\Z)"),
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
    script = bool(invocation.via) and interpreter_name(invocation.via[-1]) in SCRIPTED
    if script and UNKNOWN not in name and re.search(r"\.\w+\Z", name):
        return False  # `for f in *.py; do python "$f"`
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
        if value.startswith("() {"):
            return True  # taken for a function by old shells
    return False


# Side effects of a program on the rest of the same command: files, links, renamed programs.

# Command lines in makefiles, justfiles and the scripts of a package.

RECIPES = split_values(program_tables().recipe_files)
_TARGET = re.compile(r"([\w.%/@ -]+):(?![=:])\s*([^;\n]*)(?:;\s*(.*))?")
_SCRIPT = re.compile(r'"([\w:.-]+)"\s*:\s*"((?:[^"\\]|\\.)*)"')
_RUN_WORDS = frozenset({"run", "run-script", "exec"})


def recipe_commands(text: str, invocation: Invocation) -> str:
    """Return what the program would run of the file: the named targets and their prerequisites;
    all of it if that is unknown."""
    if "package.json" in RECIPES[invocation.name]:
        sections = {
            name: ("", [re.sub(r"\\(.)", r"\1", line)]) for name, line in _SCRIPT.findall(text)
        }
        default = list(sections)
    else:
        sections = dict(_recipe_targets(text))
        default = list(sections)[:2]  # the lines before the first target, and that target
    named = [word for word in operands(invocation) if "=" not in word and word not in _RUN_WORDS]
    wanted = [name for name in named if name in sections] or (default if not named else [*sections])
    wanted.append("")
    lines: list[str] = []
    done: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in done and name in sections:
            done.add(name)
            needed, commands = sections[name]
            wanted += [*needed.split(), f"pre{name}", f"post{name}"]
            lines += commands
    return "\n".join(lines).replace("$$", "$")


def _recipe_targets(text: str) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Yield the name of each target, its prerequisites, and its command lines."""
    names, needed, commands = [""], "", list[str]()
    for line in text.split("\n"):
        found = None if line[:1].isspace() else _TARGET.match(line)
        if found:
            for name in names:
                yield name, (needed, commands)
            names, needed = found[1].split() or [""], found[2] or ""
            commands = [found[3]] if found[3] else []
        elif line[:1].isspace() and line.strip():
            commands.append(line.strip().lstrip("@+-"))
        elif "$(shell" in line or "`" in line:
            commands.append(line.replace("$(shell", "$("))
    for name in names:
        yield name, (needed, commands)


MAX_FILES = 32
_DUMPERS = word_list("data_dumpers")
_FETCHES = frozenset({"curl", "wget", "aria2c", "http", "fetch"})
_COPIES, _COPY_WORDS = word_list("copies"), word_list("copy_words")
_CLIENTS = frozenset({"aws", "gsutil", "rclone", "gcloud", "azcopy", "mc"})
_TAKES_COMMANDS = frozenset({"at", "batch", "ssh", "parallel"})
"""These run the lines of a file: `at -f file`, `ssh host < file`."""


def record_side_effects(invocation: Invocation, context: ShellContext) -> None:
    """Record what later programs of the same command may run or write through."""
    if len(context.texts) + len(context.links) + len(context.copies) > MAX_FILES:
        return
    name = invocation.name
    if name in _DUMPERS:
        context.dumps.update(locate_word(p, invocation, context) for p in written_paths(invocation))
    if name == "git" and (remote := remote_set(invocation)):
        context.remotes.add(remote)
    if name == "ln":
        _record_link(invocation, context)
    if name in ("cp", "mv", "install", "ln", "link"):
        _record_copy(invocation, context)
    elif name in _FETCHES or (name in _COPIES and _copies_here(invocation)):
        for path in (*downloaded_files(invocation), *written_paths(invocation)):
            context.fetched.add(locate_word(path, invocation, context))
    else:
        _record_unpacked(invocation, context)
        _record_written_text(invocation, context)


def _record_unpacked(invocation: Invocation, context: ShellContext) -> None:
    """Record the folder that an archive from the network, or a clone, is unpacked in."""
    if invocation.name == "git" and "clone" in invocation.arguments:
        named = operands(invocation)
        url = next((word for word in named if ":" in word), "")
        last = url.rstrip("/").removesuffix(".git").rpartition("/")[2]
        place = named[-1] if named[-1] != url else last
        if place and url:
            usual = any(host in url for host in _PACKAGE_HOSTS)
            context.unpacked[locate_word(place, invocation, context)] = usual
        return
    fed = any(source.name in _FETCHES for source in invocation.upstream)
    if invocation.name not in EXTRACTS or not (fed or context.fetched):
        return
    named = operands(invocation)
    archives = {locate_word(path, invocation, context) for path in named}
    if fed or any(map(is_pattern, named)) or not context.fetched.isdisjoint(archives):
        for folder in filled_folders(invocation):
            context.unpacked[locate_word(folder, invocation, context)] = False


def _copies_here(invocation: Invocation) -> bool:
    """Return whether a storage or host client downloads files."""
    return invocation.name not in _CLIENTS or not _COPY_WORDS.isdisjoint(invocation.arguments)


def original_program(invocation: Invocation, context: ShellContext) -> Invocation | None:
    """Return the program that the same command has renamed to the name started now."""
    source = context.copies.get(invocation.name) if context.copies and invocation.words else None
    if source is None or program_name(source) == invocation.name:
        return None
    return msgspec.structs.replace(invocation, words=(source, *invocation.arguments))


def scripts_run(invocation: Invocation, context: ShellContext) -> Iterator[str]:
    """Yield shell text that the same command has written to a file and now runs."""
    if not context.texts:
        return
    name = invocation.name
    if name in RECIPES:
        paths = [*option_values(invocation.arguments, ("-f", "--file", "--makefile", "--justfile"))]
        for path in paths or RECIPES[name]:
            text = context.texts.get(locate_word(path, invocation, context))
            yield recipe_commands(text, invocation) if text else ""
    elif name == "git":  # its hooks
        yield from (text for path, text in context.texts.items() if "/.git/hooks/" in path)
    elif name in _TAKES_COMMANDS:
        paths = [*option_values(invocation.arguments, ("-f", "-a"))]
        paths += [each.target for each in invocation.redirects if each.operator == "<"]
        yield from (context.texts.get(locate_word(path, invocation, context), "") for path in paths)
    else:
        yield _script_run(invocation, context)


def _script_run(invocation: Invocation, context: ShellContext) -> str:
    texts = (context.texts.get(real, "") for real in executed_files(invocation, context))
    text = next(filter(None, texts), "")
    shell = invocation.name in SHELLS or invocation.name in ("source", ".")
    first = text.lstrip().partition("\n")[0]
    direct = not first.startswith("#!") or "sh" in first
    return text if shell or (direct and "/" in "".join(invocation.words[:1])) else ""


def _record_written_text(invocation: Invocation, context: ShellContext) -> None:
    paths = [redirect.target for redirect in invocation.redirects if redirect.writes]
    if invocation.name == "tee":
        paths += operands(invocation)
    if not paths:
        return
    plain = Invocation(invocation.words, stdin=invocation.stdin, upstream=invocation.upstream)
    text = predict_output(plain)
    sources = {invocation.name, *(source.name for source in invocation.sources)}
    for path in paths:
        if sources & MAKES_CODE:
            context.fetched.add(locate_word(path, invocation, context))
        if text is not None:
            _record_text(path, text, invocation, context)
        elif invocation.name == "cat" and len(invocation.words) == 2:
            context.copies[program_name(path)] = invocation.words[1]


def _record_link(invocation: Invocation, context: ShellContext) -> None:
    named = operands(invocation)
    if len(named) < 1:
        return
    target = context.real(named[0], invocation)
    last = named[-1] if len(named) > 1 else "."
    link = context.written_as(last, invocation)
    if target and link:
        context.links[link] = target
        context.links[f"{link.rstrip('/')}/{target.rpartition('/')[2]}"] = target


def _record_copy(invocation: Invocation, context: ShellContext) -> None:
    named = operands(invocation)
    if len(named) < 2:
        return
    old, new = named[-2:]
    context.copies[program_name(new)] = context.copies.get(program_name(old), old)
    source = locate_word(old, invocation, context)
    if source in context.fetched:
        context.fetched.add(locate_word(new, invocation, context))
    if source in context.texts:
        _record_text(new, context.texts[source], invocation, context)


def downloaded_files(invocation: Invocation) -> list[str]:
    """Return the files that a download program names after the URL."""
    words = invocation.arguments
    addresses = [word for word in words if "://" in word or (word[:1] != "-" and "/" in word)]
    named = [address.partition("?")[0].rstrip("/").rpartition("/")[2] for address in addresses]
    if invocation.name in _COPIES:
        return [*named, *words[-1:]]
    if invocation.name == "aria2c" and not list(option_values(words, ("-o", "--out"))):
        return named
    if invocation.name == "wget" and not list(option_values(words, ("-O", "--output-document"))):
        return named
    remote = any(word[:1] == "-" and word[:2] != "--" and "O" in word for word in words)
    return named if remote or "--remote-name" in words else []


def _record_text(path: str, text: str, invocation: Invocation, context: ShellContext) -> None:
    real = locate_word(path, invocation, context)
    if real and not real.startswith("/dev/"):
        before = context.texts.get(real, "")
        appended = any(r.target == path and ">>" in r.operator for r in invocation.redirects)
        context.texts[real] = f"{before}\n{text}" if appended else text
