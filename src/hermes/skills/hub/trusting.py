"""How far the place a skill was fetched from is trusted."""

from hermes.skills.hub.endpoints import Endpoints
from hermes.skills.hub.sources.source import Fetched
from hermes.skills.scanner.trust import Trust, trust_of

AT_GITHUB = frozenset({"github", "skills-sh", "tap", "claude-marketplace"})
"""Sources whose files come from a repository at GitHub: that is who is trusted, or not."""


def trust_in(source: str, fetched: Fetched, endpoints: Endpoints) -> Trust:
    """Of a place that proves nothing, only as much as of anybody."""
    if not fetched.place:
        return Trust.COMMUNITY
    if source not in AT_GITHUB:
        return trust_of(source, fetched.place)
    # Who owns a name at GitHub may not own it at another server that speaks the same language.
    genuine = endpoints.github_api == Endpoints().github_api
    return trust_of("github", fetched.place) if genuine else Trust.COMMUNITY
