"""Signatures of attacks in code of any language, matched against the text.

Python and shell scripts are also analysed as syntax trees. For other languages, these signatures
are the only check.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Literal

from hermes.security import (
    CREDENTIAL_STORES,
    OWN_FILES,
    SECRET_FILES,
    SECRET_PLACES,
    STARTUP_FILES,
    SYSTEM_CREDENTIALS,
    Invocation,
)
from hermes.security.danger.secrets import ENV_FILE
from hermes.skills.scanner import rules
from hermes.skills.scanner.pieces import scheduled_commands
from hermes.skills.scanner.rules import (
    LineIndex,
    RuleHit,
    backdoor,
    credential,
    exfiltration,
    find_all,
    obfuscation,
    persistence,
    privilege,
    supply_chain,
)

# Addresses and files that several detectors use

COLLECTOR = re.compile(
    r"webhook\.site|requestbin|pipedream\.net|\.oast\.|oastify|burpcollaborator|interact\.sh|"
    r"dnslog|ngrok(?:-free)?\.(?:io|app|dev)|trycloudflare\.com|beeceptor|hookbin|postb\.in|"
    r"pastebin\.com|transfer\.sh|0x0\.st|file\.io\b|termbin|ix\.io|paste\.rs|bashupload|gofile|"
    r"anonfiles|temp\.sh|serveo\.net|canarytokens|requestcatcher|\.onion\b|localhost\.run"
)
"""Services that accept data from anyone and show it to their owners."""
MESSENGER = re.compile(
    r"discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot|hooks\.zapier\.com|"
    r"hook\.\w+\.make\.com|hooks\.slack\.com|ntfy\.sh"
)
"""Similar services that people also use for their own messages."""
BARE_ADDRESS = re.compile(
    r"https?://(?!127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.0\.0\.0|169\.254\.)"
    r"\d{1,3}(?:\.\d{1,3}){3}"
)
"""An internet address without a host name."""
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
"""Hosts of installation scripts of well-known tools; for GitHub, with the owner."""

VENDORS: Final = {
    "OPENAI": "openai", "ANTHROPIC": "anthropic", "CLAUDE": "anthropic", "GITHUB": "github",
    "GH": "github", "GITLAB": "gitlab", "AWS": "amazonaws", "GOOGLE": "google", "GEMINI": "google",
    "SLACK": "slack", "STRIPE": "stripe", "HF": "huggingface", "HUGGINGFACE": "huggingface",
    "NPM": "npmjs", "PYPI": "pypi", "TWINE": "pypi", "NOTION": "notion", "OPENROUTER": "openrouter",
    "GROQ": "groq", "MISTRAL": "mistral", "DEEPSEEK": "deepseek", "AZURE": "azure",
    "CLOUDFLARE": "cloudflare", "DISCORD": "discord", "TELEGRAM": "telegram", "TWILIO": "twilio",
    "SENDGRID": "sendgrid", "LINEAR": "linear", "HERMES": "nousresearch",
}  # fmt: skip
"""The first word of a variable that holds a key, and part of the host it belongs to."""

_HOMES = r"(?:~|\$\{?HOME\}?|%USERPROFILE%|/root|/home/[^/\s\"']{1,40}|/Users/[^/\s\"']{1,40})"


def _any_of(names: tuple[str, ...]) -> str:
    return "|".join(re.escape(name) for name in names)


CREDENTIAL_STORE = re.compile(
    rf"{_HOMES}[/\\](?:{_any_of(CREDENTIAL_STORES)})(?![\w.-])|(?:{_any_of(SYSTEM_CREDENTIALS[:4])})"
    r"|(?<![\w.-])\.(?:ssh|aws|gnupg|kube)[/\\](?:id_\w+|credentials|config|\*)"
    r"|[\"']\.(?:ssh|aws|gnupg)[\"']|key4\.db|logins\.json|wallet\.dat"
    r"|cookies\.sqlite|Login Data\b|Local State\b"
)
"""Files with keys and passwords, in the text of any language."""
_PUBLIC_FILE = re.compile(r"\.pub\Z|known_hosts|authorized_keys|\.ssh[/\\]config|\.aws[/\\]config")
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
"""Files that run at login, at start-up or on a schedule."""
HERMES_FILE = re.compile(
    rf"(?:\.hermes|HERMES_HOME\}}?)[/\\\"',\s)]+(?:{_any_of(OWN_FILES)}|SOUL\.md)(?!\w)"
)
"""Our settings, keys, approvals and instructions."""


def is_credential_store(path: str) -> bool:
    """Whether a path holds keys, passwords or history of the user."""
    path = "/" + path.replace("\\", "/").removeprefix("~").lstrip("/")
    if _PUBLIC_FILE.search(path):
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
    """Like `is_credential_store`, or named like a secret file of a project."""
    if is_credential_store(path):
        return True
    return not _PUBLIC_FILE.search(path) and bool(SECRET_FILES.search(path))


def is_env_file(path: str) -> bool:
    return bool(ENV_FILE.search(path))


def is_known_installer(text: str) -> bool:
    """Whether every address in a command serves installers of well-known tools."""
    addresses = re.findall(r"https?://[^\s\"'|;)]{1,300}", text)
    return bool(addresses) and all(map(_is_installer_address, addresses))


def _is_installer_address(address: str) -> bool:
    if not address.startswith("https://"):
        return False
    host, _, path = address.removeprefix("https://").partition("/")
    return host in INSTALLERS or f"{host}/{path.partition('/')[0]}" in INSTALLERS


MINER = re.compile(
    r"stratum\+(?:tcp|ssl|tls)://[\w.-]+|--donate-level[ =]\d"
    r"|\b(?:xmrig|minerd|cpuminer|ethminer|nbminer|lolminer|xmr-stak)\b[^\n]{0,120}?"
    r"\s(?:-o|-u|--url|--pool|--user|--coin)\b"
    r"|\b(?:supportxmr|nanopool|2miners|minexmr|hashvault|f2pool|ethermine|nicehash)\.(?:com|org|pro)"
)
_ENVIRONMENT = re.compile(
    r"JSON\.stringify\(\s*process\.env\s*[,)]|Object\.(?:entries|assign|values|keys)\([^)\n]{0,20}process\.env"
    r"|\.\.\.process\.env\s*\}\s*\)|(?:body|data)\s*[:=]\s*process\.env\s*[,;)]|ENV\.to_(?:h|a|json)"
    r"|json_encode\(\s*(?:\$_ENV|\$_SERVER|getenv\(\))|Get-ChildItem\s+env:|\bgci\s+env:"
    r"|os\.Environ\(\)|System\.getenv\(\)|toJSON\(\s*secrets\s*\)|dict\(os\.environ\)"
)
_STORE_READ = re.compile(
    r"(?:readFile(?:Sync)?|File\.(?:read|open|binread)|ReadFile|file_get_contents|fopen|Get-Content|"
    rf"createReadStream|Dir(?:\.glob)?[(\[])[^\n]{{0,120}}?(?:{CREDENTIAL_STORE.pattern})"
)
_ENV_FILE = re.compile(
    r"(?:readFile(?:Sync)?|File\.read|file_get_contents|ReadFile|open)\(\s{0,9}"
    r"[\"'][^\"'\n]{0,60}\.env[\"']"
)
_SENDS = re.compile(
    r"\bfetch\(|\baxios\b|https?\.request\(|XMLHttpRequest|\.post\(|Net::HTTP|HTTParty|curl_exec"
    r"|file_get_contents\(\s*[\"']https?:|Invoke-(?:WebRequest|RestMethod)|\b(?:iwr|irm)\b"
    r"|UploadString|UploadData|sendBeacon|new WebSocket|net\.connect|fsockopen|http\.Post"
    r"|LWP::UserAgent|TCPSocket|net\.Socket|net\.Dial\(|new Image\(\)|requests\.|urlopen|\bcurl\s",
)
_EVALUATES = re.compile(
    r"(?<![\w.$])(?:eval|Function|execScript|setTimeout|vm\.run\w+)\s*\(|\bIEX\b|Invoke-Expression"
    r"|instance_eval|\bassert\s*\(\s*\$",
)
_DECODES = re.compile(
    r"\batob\s*\(|,\s*[\"'](?:base64|hex)[\"']\s*\)|FromBase64String|base64_decode"
    r"|Base64\.(?:decode|strict_decode)|String\.fromCharCode\(\s*\d+\s*,|unescape\(\s*[\"']%|str_rot13"
    r"|gzinflate|pack\(\s*[\"']H\*|decode_base64"
)
_CONNECTS = re.compile(
    r"net\.(?:Socket|connect)|fsockopen|TCPSocket|\bsocket\(S,|IO::Socket|Net\.Sockets\.TCPClient"
    r"|net\.Dial\(|new\s+Socket\("
)
_STARTS_SHELL = re.compile(
    r"[\"'`](?:/bin/)?(?:ba|z)?sh[\"'` ]|cmd\.exe|/bin/sh -i|exec\(\s*[\"']/bin|powershell",
)
_DOWNLOADS = re.compile(
    r"(?:IEX|Invoke-Expression)\b[^\n]{0,200}(?:DownloadString|Invoke-WebRequest|\biwr\b|\birm\b)"
    r"|(?:DownloadString|\biwr\b|\birm\b|Invoke-(?:WebRequest|RestMethod))[^\n]{0,300}\|\s*(?:IEX\b|"
    r"Invoke-Expression)",
    re.IGNORECASE,
)
_ENCODED_COMMAND = re.compile(
    r"(?:powershell|pwsh)[^\n]{0,200}\s-e(?:nc|ncodedcommand|c)?\s+[A-Za-z0-9+/=]{40,}",
    re.IGNORECASE,
)
_WINDOWS_START = re.compile(
    r"(?:reg\s+add|New-ItemProperty|Set-ItemProperty)[^\n]{0,200}CurrentVersion\\+Run"
    r"|schtasks\s+/create[^\n]{0,300}(?:powershell|cmd|http)",
    re.IGNORECASE,
)
_DEFENDER = re.compile(
    r"Set-MpPreference[^\n]{0,100}Disable|Add-MpPreference[^\n]{0,60}Exclusion|vssadmin\s+delete"
    r"|netsh\s+advfirewall\s+set\s+\w+\s+state\s+off",
    re.IGNORECASE,
)
_MACHINE_CODE = re.compile(
    r"(?:VirtualAlloc|RtlMoveMemory|CreateRemoteThread|WriteProcessMemory)(?:Ex)?\s{0,3}\("
)
_FAKE_DIALOG = re.compile(r"display dialog[^\n]{0,200}hidden answer|Get-Credential[^\n]{0,200}http")
_REMOTE_EVAL = re.compile(
    r"(?:eval|Function|exec)\s*\(\s*(?:await\s+)?\(?(?:await\s+)?(?:fetch|axios|http|file_get_contents)",
)

_STARTED = re.compile(
    r"(?<![\w$])(?:exec|execSync|execFile|system|popen|spawn|spawnSync|shell_exec|passthru|Exec|"
    r"Command|do_shell_script|Run)[\"']?\]?\s{0,3}\(\s{0,3}([\"'`])((?:(?!\1)[^\\\n]|\\.){3,600})\1"
)
"""Command lines started by code of another language."""

ENVIRONMENT_SENT = exfiltration("environment_sent", "critical", "sends all variables away")
STORE_NEAR = exfiltration("store_near", "high", "names keys and talks to the network")
STORE_SENT = exfiltration("store_sent", "critical", "reads keys and talks to the network")
ENV_SENT = exfiltration("env_file_sent", "medium", "reads .env and talks to the network")
STORE_NAMED = credential("store_named", "low", "names files with keys or passwords")
DROP_NAMED = exfiltration("drop_named", "medium", "talks to a place that collects anything")
DECODED = obfuscation("decoded_code", "high", "decodes text and evaluates code")
SOCKET_SHELL = backdoor("socket_shell", "critical", "connects a shell to the network")
DOWNLOADED = supply_chain("downloaded_code", "critical", "runs code from the network")
FETCHED = supply_chain("fetched_code", "high", "runs code fetched from the network")
INSTALLER = supply_chain("powershell_installer", "low", "runs a well-known installer")
ENCODED = obfuscation("encoded_command", "critical", "runs an encoded command")
WINDOWS_START = persistence("windows_startup", "high", "starts something at every login")
MACHINE_CODE = obfuscation("machine_code", "critical", "runs machine code from memory")
FAKE_DIALOG = credential("fake_dialog", "high", "asks for a password in a dialog")
DEFENDER = privilege("defender_off", "critical", "turns protection off")

_SINGLE: Final = (
    (rules.MINES, MINER),
    (ENCODED, _ENCODED_COMMAND),
    (WINDOWS_START, _WINDOWS_START),
    (DEFENDER, _DEFENDER),
    (DOWNLOADED, _REMOTE_EVAL),
    (MACHINE_CODE, _MACHINE_CODE),
    (FAKE_DIALOG, _FAKE_DIALOG),
)
_COMBINED: Final = (
    (ENVIRONMENT_SENT, _ENVIRONMENT, _SENDS),
    (STORE_SENT, _STORE_READ, _SENDS),
    (STORE_NEAR, CREDENTIAL_STORE, _SENDS),
    (ENV_SENT, _ENV_FILE, _SENDS),
    (DECODED, _DECODES, _EVALUATES),
    (SOCKET_SHELL, _CONNECTS, _STARTS_SHELL),
    (DROP_NAMED, COLLECTOR, _SENDS),
)
"""Pairs of patterns that are harmless alone."""


def single_signatures(text: str) -> Iterator[RuleHit]:
    """Yield signatures that are sufficient alone."""
    for rule, pattern in _SINGLE:
        for line, _ in islice(find_all(pattern, text), 1):
            yield RuleHit(rule, line)
    for line, match in find_all(_DOWNLOADS, text):
        command = match[0] + text[match.end() : match.end() + 200].partition("\n")[0]
        rule = INSTALLER if is_known_installer(command) else DOWNLOADED
        if rule is DOWNLOADED and "https://" in command and "http://" not in command:
            rule = FETCHED
        yield RuleHit(rule, line)


def started_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 0) and text of the commands that code starts."""
    for line, match in find_all(_STARTED, text):
        yield line, re.sub(r"\\(.)", r"\1", match[2])


def combined_signatures(text: str) -> Iterator[RuleHit]:
    """Yield signatures that need two places of one script."""
    lines = LineIndex(text)
    for rule, first, second in _COMBINED:
        match = first.search(text)
        if match and second.search(text):
            yield RuleHit(rule, lines.at(match.start()))
        elif match and rule is STORE_NEAR:
            yield RuleHit(STORE_NAMED, lines.at(match.start()))


# Packages: names that differ in one letter from a well-known one

Registry = Literal["python", "node"]

_PYTHON_NAMES: Final = """
    aiohttp anthropic apscheduler arrow asyncpg attrs babel bcrypt beautifulsoup4 bitsandbytes
    black bokeh boto3 botocore celery certifi cffi chardet charset-normalizer click cloudpickle
    colorama coverage cryptography cython dask datasets discord django dnspython docker dotenv
    fastapi feedparser flake8 flask gevent google gradio greenlet grpcio gunicorn h5py httplib2
    httpx httpx2 huggingface-hub hypothesis idna imageio ipython isort jinja2 joblib jsonschema
    jupyter jupyterlab keras keyring kubernetes langchain lightgbm litellm loguru lxml markdown
    markupsafe matplotlib mkdocs msgspec mypy mysqlclient networkx nltk notebook numba numpy
    openai opencv-python openpyxl orjson packaging pandas paramiko passlib patsy peewee pillow
    pip pipenv playwright plotly poetry polars pre-commit protobuf psutil psycopg psycopg2
    psycopg2-binary pyarrow pydantic pygments pyjwt pymongo pymupdf pymysql pyopenssl pypdf
    pypdf2 pyperclip pyserial pytest python-dateutil python-docx python-dotenv python-pptx pytz
    pyyaml pyzmq ray redis regex reportlab requests requests-oauthlib rich ruff scikit-image
    scikit-learn scipy scrapy seaborn selenium sentry-sdk setuptools shapely simplejson six
    slack-sdk soupsieve spacy sphinx sqlalchemy starlette statsmodels streamlit sympy tabulate
    tenacity tensorflow tiktoken tokenizers toml torch torchaudio torchvision tornado tqdm
    transformers twine typer ujson urllib3 uvicorn uvloop virtualenv watchdog websocket-client
    websockets werkzeug wheel xgboost xlrd xlsxwriter yt-dlp zstandard
"""
PYTHON_PACKAGES: Final = frozenset(_PYTHON_NAMES.split())
_NODE_NAMES: Final = """
    ajv angular ansi-styles async autoprefixer axios babel-core bcrypt bluebird body-parser
    bootstrap chalk cheerio chokidar classnames colors commander concurrently cookie-parser
    cors cross-env cross-spawn debug discord.js dotenv electron esbuild eslint ethers
    eventemitter3 express fastify fs-extra glob graphql gulp helmet husky immer inquirer
    ioredis jest jquery jsdom jsonwebtoken karma knex lint-staged lodash lodash-es luxon marked
    minimist mkdirp mocha moment mongodb mongoose morgan mysql mysql2 nanoid nestjs next
    node-fetch nodemailer nodemon nuxt openai passport playwright postcss preact prettier
    prisma puppeteer ramda react react-dom react-router react-router-dom redis redux request
    rimraf rollup rxjs sass semver sequelize sharp socket.io socket.io-client storybook stripe
    styled-components superagent supertest svelte tailwindcss terser three ts-node tslib tsx
    turbo typeorm typescript underscore uuid vite vitest vue vuex webpack webpack-cli winston
    ws yargs zod zustand
"""
NODE_PACKAGES: Final = frozenset(_NODE_NAMES.split())
_SIMILAR_NAMES: Final = """
    arrows asyncs attr bokeh2 boto clicks color colour discordjs docker2 dotenvx express5
    flasks glob2 googles jests kera marker markers moments mypy2 mysql3 nests nextjs numpy2
    openapi pandas2 pipx plotly2 polar preactjs preacts pymupdf4llm pypdf4 pytests react-doms
    reacts redisc request requests2 rollups sass2 scrapyd spacy2 sphinxs torch2 tornadoes types
    vitess
"""
_SIMILAR: Final = frozenset(_SIMILAR_NAMES.split())
"""Close to a well-known name, but legitimate or never installed by mistake."""
_INSTALL: Final = {
    "pip": "python", "pip3": "python", "pipx": "python", "uv": "python", "poetry": "python",
    "npm": "node", "pnpm": "node", "yarn": "node", "bun": "node", "npx": "node",
}  # fmt: skip
_VERBS: Final = frozenset({"install", "add", "i", "require", "inject", "exec", "dlx"})
_TAKES_VALUE: Final = frozenset({
    "-r", "-c", "--requirement", "--index-url", "-i", "--extra-index-url", "--target", "-t", "-e",
    "--python", "--prefix", "--registry", "-f", "--find-links", "--constraint", "-p", "--group",
})  # fmt: skip
_INDEX = re.compile(
    r"(?:--(?:extra-)?index-url|--index|--default-index|-i|--registry|--find-links|"
    r"config\s+set\s+(?:global\.)?(?:registry|(?:extra-)?index-url))[ =]+(https?://[^\s\"']{1,200})"
)
_INDEX_HOSTS: Final = frozenset({
    "pypi.org", "test.pypi.org", "files.pythonhosted.org", "download.pytorch.org",
    "pypi.nvidia.com", "registry.npmjs.org", "registry.yarnpkg.com", "npm.pkg.github.com",
    "registry.npmmirror.com", "pypi.tuna.tsinghua.edu.cn", "mirrors.aliyun.com",
    "pypi.mirrors.ustc.edu.cn", "github.com", "mirrors.cloud.tencent.com", "wheels.vllm.ai",
    "download.openmmlab.com", "data.pyg.org", "storage.googleapis.com", "abetlen.github.io",
    "flashinfer.ai", "repo.huaweicloud.com",
})  # fmt: skip
_PLACEHOLDER = re.compile(r"\bexample\.(?:com|org|net)\Z|company|mycorp|\byour")
_NAME = re.compile(r"@?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")
_MIN_NAME_LENGTH: Final = 5


def installed_packages(invocation: Invocation) -> Iterator[tuple[str, Registry]]:
    """Yield the packages that a command would install."""
    registry = _INSTALL.get(invocation.name)
    words = list(invocation.arguments)
    if registry is None or not (_VERBS & set(words[:3]) or invocation.name == "npx"):
        return
    verb = next((at for at, word in enumerate(words) if word in _VERBS), -1)
    skip = False
    for word in words[verb + 1 :]:
        if skip or word.startswith("-"):
            skip = not skip and word in _TAKES_VALUE
        elif name := package_name(word):
            yield name, "python" if registry == "python" else "node"


def uses_unknown_index(invocation: Invocation) -> bool:
    """Whether packages would come from an unknown index."""
    if invocation.name not in _INSTALL:
        return False
    found = (HOST.match(address) for address in _INDEX.findall(invocation.text))
    hosts = (match[1] for match in found if match and match[1] not in _INDEX_HOSTS)
    return any(not LOCAL.match(host) and not _PLACEHOLDER.search(host) for host in hosts)


def package_name(word: str) -> str:
    """Return `requests` for `requests[socks]>=2`; "" for a path or an address."""
    match = _NAME.match(word)
    if (
        match is None
        or "@npm:" in word
        or "/" in word.lstrip("@").partition("/")[2]
        or "://" in word
    ):
        return ""
    return "" if "/" in match[0] else match[0].lower().replace("_", "-")


def listed_packages(text: str, name: str) -> Iterator[tuple[int, str, Registry]]:
    """Yield line (from 0), package and registry of a requirements.txt or package.json."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base.startswith("requirements") and base.endswith(".txt"):
        for number, line in enumerate(text.split("\n")):
            found = package_name(line.strip())
            if found and not line.startswith("#"):
                yield number, found, "python"
    elif base == "package.json":
        inside = False
        for number, line in enumerate(text.split("\n")):
            if re.search(r'"\w*[dD]ependencies"\s*:', line):
                inside = True
            elif "}" in line:
                inside = False
            elif inside and (named := re.match(r'\s*"([^"@/]{1,80})"\s*:', line)):
                yield number, named[1].lower(), "node"


def packages_from_urls(text: str) -> Iterator[int]:
    """Yield lines (from 0) of a package.json with a package from an address."""
    for number, line in enumerate(text.split("\n")):
        if re.match(
            r'\s*"[^"]{1,80}"\s*:\s*"https?://(?!github\.com|codeload)[^"]{1,300}\.t', line
        ):
            yield number


def is_typosquat(name: str, registry: Registry) -> bool:
    if len(name) < _MIN_NAME_LENGTH or name in PYTHON_PACKAGES | NODE_PACKAGES | _SIMILAR:
        return False
    from rapidfuzz.distance import OSA  # slow to load and rarely needed

    known = PYTHON_PACKAGES if registry == "python" else NODE_PACKAGES
    return any(
        len(other) >= _MIN_NAME_LENGTH and OSA.distance(name, other, score_cutoff=1) <= 1
        for other in known
    )


# Files and commands that start by themselves

_WRITES = re.compile(r"^[^\n]*(?:>>?|\btee\b|\bcp\b|\bmv\b|\bln\b)[^\n]*$", re.MULTILINE)
_DOCUMENT = re.compile(r"<<-?\s*[\"']?(\w{1,40})")
_ODD_COMMAND = re.compile(
    r"(?:/tmp|/var/tmp|/dev/shm)/\.?\w|\bnohup\b|\balias\s+(?:sudo|su|ssh|passwd|git|gpg)=|"
    r"\bbase64\b|\bpython3?\s+-c|\bnc\s|LD_PRELOAD|/\.[\w-]+/?\.?[\w-]*\s*(?:&|>\s*/dev/null)|"
    r"\bread\s+-\w*s"
)
_QUOTED = re.compile(r"\b(?:echo|printf)\s+(?:-\w+\s+)?([\"'])([^\n]{3,600}?)\1")
_STARTUP_OR_HOOK = re.compile(rf"{STARTUP.pattern}|\.git/hooks/")
_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S{1,20})\s+AAAA[A-Za-z0-9+/]{40,}")
_FALSE_NAME = re.compile(
    r"(?<![\d.])(?!127\.|0\.0\.|10\.|192\.168\.)\d{1,3}(?:\.\d{1,3}){3}[ \t][^\n]{0,200}?"
    r"\b(?:pypi|pythonhosted|npmjs|github|githubusercontent|google|microsoft|apple|docker|debian|"
    r"ubuntu|openai|anthropic|crates|rubygems)\.(?:org|com|io)\b"
)
_ROOT_FOR_ALL = re.compile(r"\bALL\s*=\s*\([^)\n]{1,20}\)\s*NOPASSWD:\s*ALL\b")
_MAX_HEREDOC_CHARS = 4_000  #: Characters of a here-document that are checked.


def startup_hits(text: str, dangers: Callable[[str], list[RuleHit]]) -> Iterator[RuleHit]:
    """Yield hits in start-up files. `dangers` returns the suspicious parts of a command line."""
    lines = LineIndex(text)
    if "authorized_keys" in text and (key := _KEY.search(text)):
        yield RuleHit(rules.KEY_ADDED, lines.at(key.start()))
    if "/etc/hosts" in text and (name := _FALSE_NAME.search(text)):
        yield RuleHit(rules.FALSE_NAMES, lines.at(name.start()))
    if "sudoers" in text and (grant := _ROOT_FOR_ALL.search(text)):
        yield RuleHit(rules.SUDOERS, lines.at(grant.start()))
    for line, command in scheduled_commands(text):
        if dangers(command):
            yield RuleHit(rules.BAD_STARTUP, line)
        elif _ODD_COMMAND.search(command):
            yield RuleHit(rules.ODD_STARTUP, line)
    if _STARTUP_OR_HOOK.search(text):
        yield from _written_startup_hits(text, lines, dangers)


def _written_startup_hits(
    text: str, lines: LineIndex, dangers: Callable[[str], list[RuleHit]]
) -> Iterator[RuleHit]:
    """Check what is written into files that run by themselves."""
    for match in _WRITES.finditer(text):
        if _STARTUP_OR_HOOK.search(match[0]) is None:
            continue
        written = match[0] + _heredoc(text, match)
        quoted = "\n".join(inner for _, inner in _QUOTED.findall(match[0]))
        if dangers(quoted or _heredoc(text, match)):
            yield RuleHit(rules.BAD_STARTUP, lines.at(match.start()))
        elif _ODD_COMMAND.search(written):
            yield RuleHit(rules.ODD_STARTUP, lines.at(match.start()))


def _heredoc(text: str, line: re.Match[str]) -> str:
    """Return the here-document that starts on this line, or ""."""
    opening = _DOCUMENT.search(line[0])
    if opening is None:
        return ""
    rest = text[line.end() : line.end() + _MAX_HEREDOC_CHARS]
    return re.split(rf"\n[ \t]*{opening[1]}[ \t]*(?:\n|\Z)", rest, maxsplit=1)[0]
