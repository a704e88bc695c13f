"""Names of packages that are one slip of the finger away from a well-known one."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from hermes.security.shell.model import Invocation
from hermes.skills.scanner.places import HOST, LOCAL

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
PYTHON: Final = frozenset(_PYTHON_NAMES.split())
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
NODE: Final = frozenset(_NODE_NAMES.split())
_SIMILAR_NAMES: Final = """
    arrows asyncs attr bokeh2 boto clicks color colour discordjs docker2 dotenvx express5
    flasks glob2 googles jests kera marker markers moments mypy2 mysql3 nests nextjs numpy2
    openapi pandas2 pipx plotly2 polar preactjs preacts pymupdf4llm pypdf4 pytests react-doms
    reacts redisc request requests2 rollups sass2 scrapyd spacy2 sphinxs torch2 tornadoes types
    vitess
"""
_SIMILAR: Final = frozenset(_SIMILAR_NAMES.split())
"""Close to a well-known name, but themselves honest or never installed by mistake."""
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
_SHORTEST: Final = 5


def installed(invocation: Invocation) -> Iterator[tuple[str, Registry]]:
    """The packages a command would install."""
    registry = _INSTALL.get(invocation.name)
    words = list(invocation.arguments)
    if registry is None or not (_VERBS & set(words[:3]) or invocation.name == "npx"):
        return
    verb = next((at for at, word in enumerate(words) if word in _VERBS), -1)
    skip = False
    for word in words[verb + 1 :]:
        if skip or word.startswith("-"):
            skip = not skip and word in _TAKES_VALUE
        elif name := plain_name(word):
            yield name, "python" if registry == "python" else "node"


def odd_index(invocation: Invocation) -> bool:
    """Whether packages would come from a place that is not known to hold any."""
    if invocation.name not in _INSTALL:
        return False
    hosts = (HOST.match(address) for address in _INDEX.findall(invocation.text))
    return any(host and not _is_index(host[1]) for host in hosts)


def _is_index(host: str) -> bool:
    return host in _INDEX_HOSTS or bool(LOCAL.match(host) or _PLACEHOLDER.search(host))


def plain_name(word: str) -> str:
    """`requests[socks]>=2` as `requests`; "" for a path or an address."""
    match = _NAME.match(word)
    if (
        match is None
        or "@npm:" in word
        or "/" in word.lstrip("@").partition("/")[2]
        or "://" in word
    ):
        return ""
    return "" if "/" in match[0] else match[0].lower().replace("_", "-")


def listed(text: str, name: str) -> Iterator[tuple[int, str, Registry]]:
    """Lines (from 0) and packages of a requirements.txt or package.json."""
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if base.startswith("requirements") and base.endswith(".txt"):
        for number, line in enumerate(text.split("\n")):
            found = plain_name(line.strip())
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


def from_addresses(text: str) -> Iterator[int]:
    """Lines (from 0) of a package.json with a package from an address of its own."""
    for number, line in enumerate(text.split("\n")):
        if re.match(
            r'\s*"[^"]{1,80}"\s*:\s*"https?://(?!github\.com|codeload)[^"]{1,300}\.t', line
        ):
            yield number


def is_typosquat(name: str, registry: Registry) -> bool:
    known = PYTHON if registry == "python" else NODE
    if len(name) < _SHORTEST or name in known or name in _SIMILAR or name in PYTHON | NODE:
        return False
    near = (
        other for other in known if abs(len(other) - len(name)) <= 1 and len(other) >= _SHORTEST
    )
    distance = _distance()
    return any(distance(name, other, score_cutoff=1) <= 1 for other in near)


@cache
def _distance() -> Any:
    """Slow to load, and seldom needed."""
    return import_module("rapidfuzz.distance.OSA").distance
