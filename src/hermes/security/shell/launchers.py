"""Programs that start other programs, as data: how each names the one it starts."""

import msgspec

SHELLS = frozenset({
    "sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "rbash", "ksh93",
    "yash", "nu", "elvish", "xonsh",
})  # fmt: skip


class Launcher(msgspec.Struct, frozen=True):
    takes_value: str = ""  #: Short options with a value.
    operands: int = 0
    """Operands before the command: the duration of `timeout`, the folder of `chroot`."""
    long_values: tuple[str, ...] = ()  #: Long options with a value.
    flags: tuple[str, ...] = ()  #: If given, every other long option without `=` has a value.


_CONTAINER = Launcher(
    "uwevplhmacg",
    1,
    flags=("--rm", "--detach", "--interactive", "--tty", "--privileged", "--init", "--read-only",
           "--publish-all", "--quiet", "--no-healthcheck", "--sig-proxy", "--no-deps", "--build",
           "--service-ports", "--no-tty", "--use-aliases", "--replace"),
)  # fmt: skip
_PLAIN = Launcher()

LAUNCHERS = {
    "sudo": Launcher(
        "ughpCTrtDRU",
        long_values=("--user", "--group", "--chdir", "--prompt", "--host", "--chroot", "--role",
                     "--type", "--other-user", "--command-timeout", "--close-from"),
    ),
    "doas": Launcher("uC"),
    "pkexec": Launcher(long_values=("--user",)),
    "env": Launcher("uC", long_values=("--unset", "--chdir")),
    "nice": Launcher("n", long_values=("--adjustment",)),
    "ionice": Launcher("cnp", long_values=("--class", "--classdata")),
    "chrt": Launcher("TPD", 1),
    **dict.fromkeys(("timeout", "gtimeout"), Launcher("sk", 1, ("--signal", "--kill-after"))),
    "stdbuf": Launcher("ioe", long_values=("--input", "--output", "--error")),
    "exec": Launcher("a"),
    "time": Launcher("fo"),
    "watch": Launcher("n", long_values=("--interval",)),
    "xargs": Launcher(
        "InPLdEsaJR",
        long_values=("--max-args", "--max-procs", "--delimiter", "--arg-file", "--max-lines",
                     "--max-chars", "--process-slot-var"),
    ),
    "parallel": Launcher("jNnISa", long_values=("--jobs", "--colsep", "--arg-file", "--joblog")),
    "strace": Launcher("oepsSEuPI"),
    "ltrace": Launcher("oepsn"),
    "proot": Launcher("rbqw"),
    "unshare": Launcher("SG"),
    "nsenter": Launcher("tSG", long_values=("--target",)),
    "flock": Launcher("wE", 1),
    "ssh": Launcher("bcDEeFIiJLlmOopQRSWw", 1),
    "sshpass": Launcher("pfdP"),
    "mosh": Launcher("p", 1),
    "caffeinate": Launcher("tw"),
    "cpulimit": Launcher("lpe"),
    "cgexec": Launcher("g"),
    "chpst": Launcher("uUbeomdfcptn/"),
    "runcon": Launcher("turl", 1),
    "systemd-run": Launcher(
        "pHMtEu",
        long_values=("--unit", "--property", "--uid", "--gid", "--slice", "--description",
                     "--on-active", "--on-calendar", "--setenv", "--machine"),
    ),
    "xterm": Launcher("TdgfbS", long_values=("-display", "-geometry", "-title")),
    "entr": Launcher("s"),
    "runuser": Launcher("ugcs"),
    "bwrap": Launcher(
        flags=("--unshare-all", "--die-with-parent", "--new-session", "--share-net",
               "--unshare-net", "--unshare-pid", "--unshare-user", "--clearenv", "--as-pid-1")
    ),
    "numactl": Launcher("NmCi"),
    "choom": Launcher("n"),
    "aa-exec": Launcher("p"),
    "lckdo": Launcher("w", 1),
    "softlimit": Launcher("adflmoprst"),
    "dtach": Launcher("nNcA"),
    "abduco": Launcher("ncA"),
    "ld.so": Launcher(long_values=("--library-path", "--preload", "--argv0", "--inhibit-rpath")),
    "direnv": Launcher("", 2),
    "wsl": Launcher("du"),
    "adb": Launcher("s", 1),
    "screen": Launcher("STcehpstU"),
    "start-stop-daemon": Launcher("xpucdn"),
    **dict.fromkeys(("proxychains", "proxychains4"), Launcher("f")),
    **dict.fromkeys(
        ("powershell", "pwsh"),
        Launcher(long_values=("-ExecutionPolicy", "-ep", "-WindowStyle", "-w", "-Version")),
    ),
    "arch": Launcher("e", long_values=("-arch",)),
    "prlimit": Launcher("p", long_values=("--pid", "--output")),
    "systemd-nspawn": Launcher(
        "DMuipj", long_values=("--directory", "--image", "--machine", "--user", "--bind")
    ),
    "schroot": Launcher("cunds", long_values=("--chroot", "--user", "--directory")),
    "run0": Launcher("ugD", long_values=("--user", "--group", "--chdir", "--unit", "--property")),
    "watchexec": Launcher(
        "ewfis", long_values=("--exts", "--watch", "--filter", "--ignore", "--signal", "--shell")
    ),
    "timelimit": Launcher("tTsS"),
    "retry": Launcher("dt", long_values=("--times", "--delay")),
    **dict.fromkeys(("trap", "find"), Launcher(operands=99)),
    **dict.fromkeys(("taskset", "chroot", "setuidgid", "gosu", "su-exec", "faketime", "envdir",
                     "setlock", "pueue", "setarch"), Launcher("", 1)),
    **dict.fromkeys(
        ("nohup", "setsid", "unbuffer", "command", "builtin", "coproc", "setpriv", "busybox",
         "toybox", "catchsegv", "fakeroot", "eatmydata", "torsocks", "torify", "xvfb-run", "tini",
         "dumb-init", "daemonize", "daemon", "rlwrap", "dbus-run-session", "linux32", "linux64",
         "noglob", "nocorrect", "{", "(", "!", "then", "do", "else", "npx", "bunx", "uvx", "rtkit",
         "doppler", "dotenv", "env-cmd", "cross-env", "gnome-terminal", "disown", "autossh",
         "chronic", "ts", "tsp", "sem", "ifne", "nq", "fakechroot", "distrobox-host-exec",
         "host-spawn", "systemd-cat", "systemd-inhibit", "nocache", "tsocks", "gksu", "kdesu",
         "detach", "foreground", "firejail", "valgrind", "lima"),
        _PLAIN,
    ),
}  # fmt: skip

SUB_LAUNCHERS = {
    **{
        (engine, start): _CONTAINER
        for engine in ("docker", "podman", "nerdctl", "docker-compose")
        for start in ("exec", "run")
    },
    ("singularity", "exec"): Launcher("B", 1, ("--bind",)),
    ("apptainer", "exec"): Launcher("B", 1, ("--bind",)),
    ("lxc", "exec"): Launcher("", 1),
    ("uv", "run"): Launcher("p", long_values=("--with", "--python", "--project", "--extra")),
    **{(name, "run"): Launcher("np") for name in ("conda", "mamba", "micromamba")},
    ("perf", "stat"): Launcher("eoprIC"),
    ("perf", "trace"): Launcher("eop"),
    ("perf", "mem"): Launcher("", 1),
    ("perf", "record"): Launcher("eopF"),
    ("heroku", "run"): Launcher("a"),
    ("dotenvx", "run"): Launcher("f", long_values=("--env-file",)),
    ("limactl", "shell"): Launcher("", 1, ("--workdir", "--shell")),
    ("multipass", "exec"): Launcher("d", 1),
    ("toolbox", "run"): Launcher("cdr", long_values=("--container", "--distro", "--release")),
    ("distrobox", "enter"): Launcher("n", 1),
    ("machinectl", "shell"): Launcher("E", 1, ("--uid", "--setenv")),
    ("oc", "rsh"): Launcher("cn", 1),
    ("crictl", "exec"): Launcher("", 1),
    ("devcontainer", "exec"): Launcher(
        "", 0, ("--workspace-folder", "--container-id", "--config", "--remote-env")
    ),
    ("nix", "shell"): Launcher("", 99, ("-c", "--command")),
    ("nix", "run"): Launcher("", 1),
    ("git", "bisect"): Launcher("", 1),
    ("pipx", "run"): Launcher(long_values=("--spec", "--python")),
    **dict.fromkeys(
        (("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("npm", "exec"),
         ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"), ("bundle", "exec"),
         ("op", "run"), ("mise", "exec"), ("asdf", "exec"), ("rbenv", "exec"), ("pyenv", "exec"),
         ("rye", "run"), ("pixi", "run"), ("direnv", "exec"), ("flatpak-spawn", "--host"),
         ("rustup", "run"), ("dotenv", "run"), ("mise", "x"), ("railway", "run"),
         ("devbox", "run")),
        _PLAIN,
    ),
}  # fmt: skip
"""Programs whose subcommand starts another program."""

AFTER_DASHES = frozenset({
    "kubectl", "oc", "multipass", "lxc", "distrobox", "toolbox", "aws-vault", "chamber", "op",
    "limactl", "mosh", "infisical", "doppler", "dotenv", "npm", "pnpm", "capsh", "minikube",
    "cpulimit", "gnome-terminal", "guix", "dumb-init", "tini", "nodemon", "docker", "nix", "mise",
    "colima", "gh", "gcloud", "dotenvx", "devbox", "distrobox-enter", "lxc-attach", "incus", "pct",
    "schroot", "lldb", "rr", "watchexec", "xvfb-run", "heroku", "railway", "asdf", "hatch", "yarn",
    "teleport", "tsh", "boundary", "cloudflared", "nerdctl", "podman", "wsl", "vagrant", "direnv",
    "pass-cli", "envchain", "envconsul", "consul-template", "sops", "teller", "cargo-watch", "uv",
})  # fmt: skip
"""Programs that start what follows `--`."""

TEXT_OPTIONS: dict[str, tuple[str, ...]] = {
    "su": ("-c", "--command", "--session-command"), "runuser": ("-c", "--command"),
    "script": ("-c", "--command"), "flock": ("-c", "--command"), "sg": ("-c",),
    "env": ("-S", "--split-string"), "vagrant": ("-c", "--command"), "xterm": ("-e",),
    "konsole": ("-e",), "entr": ("-s",), "nodemon": ("--exec", "-x"), "watchexec": (),
    "nix-shell": ("--run", "--command"), "rsync": ("-e", "--rsh", "--rsync-path"),
    "split": ("--filter",), "sort": ("--compress-program",), "man": ("-P", "--pager"),
    "tcpdump": ("-z",), "zip": ("-TT", "--unzip-command"), "scp": ("-S",), "sftp": ("-S",),
    "gcloud": ("--command",), "fly": ("-C", "--command"), "flyctl": ("-C", "--command"),
    "ansible": ("-a", "--args"), "make": ("SHELL",), "tar": (
        "-I", "--use-compress-program", "--to-command", "--info-script", "--new-volume-script",
        "--rsh-command", "-F",
    ),
    "inotifywait": (), "hyperfine": ("-p", "--prepare", "-c", "--cleanup", "-s", "--setup"),
    "npx": ("-c", "--call"), "npm": ("-c", "--call"), "doppler": ("--command",),
    "eb": ("-c", "--command"), "nix": ("--command",), "cargo": ("-s", "--shell"),
    "sops": ("exec-env", "exec-file"), "az": ("--scripts",), "fzf": ("--preview", "--bind"),
    "dagger": ("-c",), "setpriv": (), "screen": ("-X",), "fd": (), "gdb": (),
    "code": (), "at": (), "mysql": ("--pager",), "psql": (), "wget": ("--use-askpass",),
    "yt-dlp": ("--exec",), "youtube-dl": ("--exec",), "zsh-defer": ("-c",), "lftp": (),
}  # fmt: skip
"""Options whose value is a command line, separate, attached or with `=`."""

TEXT_WORDS = frozenset({
    "watch", "ssh", "parallel", "tmux", "screen", "hyperfine", "concurrently", "salt", "pdsh",
    "pssh", "clush", "xterm", "watchexec", "daemon", "adb", "heroku", "xonsh", "fab", "mosh",
    "sshpass", "autossh", "wsl", "dsh", "byobu", "nodemon", "zellij",
})  # fmt: skip
"""For these, words with blanks are command lines."""
