"""Addresses and files that mean something to several detectors."""

import re
from typing import Final

from hermes.security.danger.credentials import ENV_FILE, SECRET_FILES, SECRET_PLACES
from hermes.security.paths import CREDENTIAL_STORES, OWN_FILES, STARTUP_FILES, SYSTEM_CREDENTIALS

COLLECTOR = re.compile(
    r"webhook\.site|requestbin|pipedream\.net|\.oast\.|oastify|burpcollaborator|interact\.sh|"
    r"dnslog|ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|beeceptor|hookbin|postb\.in|"
    r"pastebin\.com|transfer\.sh|0x0\.st|file\.io\b|termbin|ix\.io|paste\.rs|bashupload|gofile|"
    r"anonfiles|temp\.sh|serveo\.net|canarytokens|requestcatcher|\.onion\b|localhost\.run"
)
"""Places that take anything from anybody and show it to whoever set them up."""
MESSENGER = re.compile(
    r"discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot|hooks\.zapier\.com|"
    r"hook\.\w+\.make\.com|hooks\.slack\.com|ntfy\.sh"
)
"""Places with the same use that people also send their own messages to."""
BARE_ADDRESS = re.compile(
    r"https?://(?!127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.0\.0\.0|169\.254\.)"
    r"\d{1,3}(?:\.\d{1,3}){3}"
)
"""A machine on the internet without a name."""
HOST = re.compile(r"(?:https?|wss?|ftp)://(?:[^\s/@\"']{1,80}@)?([A-Za-z0-9.-]{1,200})")
LOCAL = re.compile(r"(?:localhost|127\.[\d.]+|0\.0\.0\.0|::1|[\w-]+\.(?:local|lan|internal))\Z")

INSTALLERS: Final = frozenset({
    "astral.sh", "sh.rustup.rs", "static.rust-lang.org", "get.docker.com", "download.docker.com",
    "bun.sh", "deno.land", "get.pnpm.io", "install.python-poetry.org", "fnm.vercel.app", "volta.sh",
    "get.volta.sh", "starship.rs", "get.helm.sh", "get.k3s.io", "ollama.com", "ollama.ai",
    "raw.githubusercontent.com/Homebrew", "raw.githubusercontent.com/nvm-sh",
    "raw.githubusercontent.com/ohmyzsh", "raw.githubusercontent.com/helm",
    "raw.githubusercontent.com/pyenv", "raw.githubusercontent.com/rancher", "pyenv.run",
    "get.scoop.sh", "community.chocolatey.org", "chocolatey.org", "mise.run", "get.sdkman.io",
    "cli.github.com", "deb.nodesource.com", "rpm.nodesource.com", "tailscale.com", "fly.io",
    "sdk.cloud.google.com", "claude.ai", "pkgs.tailscale.com", "nixos.org", "bootstrap.pypa.io",
    "micro.mamba.pm", "repo.anaconda.com", "get.pulumi.com", "just.systems", "setup.atuin.sh",
    "install.determinate.systems", "getcomposer.org", "packages.microsoft.com", "apt.llvm.org",
})  # fmt: skip
"""Where the set-up scripts of well-known tools live; an owner on GitHub counts with its name."""

VENDORS: Final = {
    "OPENAI": "openai", "ANTHROPIC": "anthropic", "CLAUDE": "anthropic", "GITHUB": "github",
    "GH": "github", "GITLAB": "gitlab", "AWS": "amazonaws", "GOOGLE": "google", "GEMINI": "google",
    "SLACK": "slack", "STRIPE": "stripe", "HF": "huggingface", "HUGGINGFACE": "huggingface",
    "NPM": "npmjs", "PYPI": "pypi", "TWINE": "pypi", "NOTION": "notion", "OPENROUTER": "openrouter",
    "GROQ": "groq", "MISTRAL": "mistral", "DEEPSEEK": "deepseek", "AZURE": "azure",
    "CLOUDFLARE": "cloudflare", "DISCORD": "discord", "TELEGRAM": "telegram", "TWILIO": "twilio",
    "SENDGRID": "sendgrid", "LINEAR": "linear", "HERMES": "nousresearch",
}  # fmt: skip
"""The first word of a variable that holds a key, and what the host it belongs to is called."""

_HOMES = r"(?:~|\$\{?HOME\}?|%USERPROFILE%|/root|/home/[^/\s\"']{1,40}|/Users/[^/\s\"']{1,40})"


def _any_of(names: tuple[str, ...]) -> str:
    return "|".join(re.escape(name) for name in names)


STORE = re.compile(
    rf"{_HOMES}[/\\](?:{_any_of(CREDENTIAL_STORES)})(?![\w.-])|(?:{_any_of(SYSTEM_CREDENTIALS[:4])})"
    r"|(?<![\w.-])\.(?:ssh|aws|gnupg|kube)[/\\](?:id_\w+|credentials|config|\*)"
    r"|[\"']\.(?:ssh|aws|gnupg)[\"']|key4\.db|logins\.json|wallet\.dat"
    r"|cookies\.sqlite|Login Data\b|Local State\b"
)
"""Files with keys and passwords, in the text of any language."""
_PUBLIC = re.compile(r"\.pub\Z|known_hosts|authorized_keys|\.ssh[/\\]config|\.aws[/\\]config")
_STORE_NAMES = re.compile(
    r"/id_(?:rsa|dsa|ecdsa|ed25519)\Z|/(?:wallet\.dat|logins\.json|key4\.db|cookies\.sqlite"
    r"|Login Data|Local State|Web Data)\Z"
)
STARTUP = re.compile(
    rf"(?:{_HOMES}[/\\]|(?<![\w.-]))(?:{_any_of(STARTUP_FILES)})(?![\w.])"
    r"|/etc/(?:profile(?:\.d)?|rc\.local|cron\S*|systemd/system|init\.d|ld\.so\.preload)"
    r"|\.pth\Z|(?:site|user)customize\.py|\.vscode/tasks\.json|\.claude/settings"
    r"|/var/spool/cron|/Library/Launch(?:Agents|Daemons)|CurrentVersion\\+Run\b|shell:startup"
)
"""Files that are run at login, at start or by a timetable."""
OWN = re.compile(
    rf"(?:\.hermes|HERMES_HOME\}}?)[/\\\"',\s)]+(?:{_any_of(OWN_FILES)}|SOUL\.md)(?!\w)"
)
"""Our settings, keys, consents and instructions."""


def is_store(path: str) -> bool:
    """Whether the user's keys, passwords or history are there: nothing a skill has to read."""
    path = "/" + path.replace("\\", "/").removeprefix("~").lstrip("/")
    if _PUBLIC.search(path):
        return False
    inside = any(f"/{name}/" in f"{path}/" for name in CREDENTIAL_STORES)
    return bool(
        inside
        or path.startswith(SYSTEM_CREDENTIALS)
        or _STORE_NAMES.search(path)
        or SECRET_PLACES.search(f"/home/user{path}")
        or SECRET_PLACES.search(path)
    )


def is_secret_path(path: str) -> bool:
    """As `is_store`, or named like a file with secrets of the project at hand."""
    if is_store(path):
        return True
    return not _PUBLIC.search(path) and bool(SECRET_FILES.search(path))


def is_env_file(path: str) -> bool:
    return bool(ENV_FILE.search(path))


def known_installer(text: str) -> bool:
    """Whether every address in a command is one from which well-known tools are set up."""
    addresses = re.findall(r"https?://[^\s\"'|;)]{1,300}", text)
    return bool(addresses) and all(map(_is_installer, addresses))


def _is_installer(address: str) -> bool:
    if not address.startswith("https://"):
        return False
    host, _, path = address.removeprefix("https://").partition("/")
    return host in INSTALLERS or f"{host}/{path.partition('/')[0]}" in INSTALLERS
