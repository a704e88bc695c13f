"""Where the services are. Data, so that a mirror, a company's own GitHub or a test can be used."""

import msgspec


class Endpoints(msgspec.Struct, frozen=True):
    github_api: str = "https://api.github.com"
    """The REST API of GitHub, without a slash at the end."""
    github_web: str = "https://github.com"
    """Addresses of repositories that people copy from a browser."""
    skills_sh: str = "https://skills.sh"
    repositories: tuple[str, ...] = ("openai/skills", "anthropics/skills")
    """Repositories `--source github` looks in when no other is named."""
    marketplaces: tuple[str, ...] = ("anthropics/claude-code", "anthropics/skills")
    """Repositories with a `.claude-plugin/marketplace.json`."""
