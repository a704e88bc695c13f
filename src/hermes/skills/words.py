"""Words that two texts can share."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")

COMMON = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "in", "into", "is", "it",
    "its", "of", "on", "or", "that", "the", "their", "this", "to", "use", "used", "user", "users",
    "using", "when", "with", "you", "your", "src", "lib", "bin", "doc", "docs", "main", "index",
    "init", "readme", "license", "test", "tests", "tmp", "new", "old", "file", "files", "folder",
    "project", "work", "home", "data",
})  # fmt: skip
"""Words that say nothing about what is meant."""

KINDS = {
    "py": "python", "ipynb": "jupyter notebook python", "js": "javascript", "ts": "typescript",
    "tsx": "react typescript", "jsx": "react javascript", "rs": "rust", "rb": "ruby",
    "go": "golang",
    "tex": "latex", "bib": "latex bibliography citations", "csv": "data spreadsheet",
    "xlsx": "excel spreadsheet", "ods": "spreadsheet", "docx": "word documents",
    "pptx": "powerpoint slides presentation", "pdf": "pdf documents", "md": "markdown",
    "sql": "database", "sqlite": "database", "tf": "terraform", "dockerfile": "docker container",
    "compose": "docker container", "makefile": "make", "toml": "config", "yml": "yaml",
    "png": "image", "jpg": "image", "jpeg": "image", "svg": "image", "mp4": "video", "mp3": "audio",
    "wav": "audio", "ics": "calendar", "eml": "email", "mbox": "email", "package": "npm node",
    "pyproject": "python", "requirements": "python", "cargo": "rust", "gemfile": "ruby",
    "github": "github git", "git": "git", "gitignore": "git", "html": "web", "css": "web",
}  # fmt: skip
"""What the names of files say to people."""


def words(text: str) -> list[str]:
    """In lower case, in order."""
    return _WORD.findall(text.lower())


def telling(texts: Iterable[str]) -> frozenset[str]:
    """The words of names of files and folders that say what the work is about."""
    found = {word for text in texts for word in words(text)}
    found.update(*(KINDS[word].split() for word in found & KINDS.keys()))
    return frozenset(stem(word) for word in found - COMMON if len(word) > 1 and not word.isdigit())


def stem(word: str) -> str:
    """`containers` and `container` are the same."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word


def shares(word: str, others: Iterable[str]) -> int:
    """2 when `word` is among the others, 1 when a longer or shorter form of it is, else 0."""
    best = 0
    for other in others:
        if word == other:
            return 2
        short, long = sorted((word, other), key=len)
        if (long.startswith(short) and len(short) > 3) or (not short.isascii() and short in long):
            best = 1
    return best


def shortened(text: str, limit: int) -> str:
    """`text` cut at a word."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    whole = cut if text[limit - 1].isspace() else cut.rpartition(" ")[0]
    return f"{(whole or cut).rstrip(' ,;:.-')}…"
