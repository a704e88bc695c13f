"""How full a conversation is and what it used so far, for status lines."""

import msgspec

from hermes.app.agents import Making
from hermes.core.messages import User


class Gauge(msgspec.Struct, frozen=True):
    model: str
    provider: str
    tokens: int
    """Of the next request, about."""
    window: int
    """Tokens the model takes; 0 when that is not known."""
    questions: int
    elsewhere: bool = False
    """Another program answers, and keeps the conversation short by itself."""

    @property
    def share(self) -> float:
        return self.tokens / self.window if self.window else 0.0


def gauge_of(session: Making) -> Gauge:
    agent, policy, profile = session.agent, session.compaction_policy, session.target.profile
    history = agent.history if agent else ()
    return Gauge(
        session.target.model,
        session.target.provider,
        policy.tokens(history) if policy else 0,
        # What a small model is sent is cut to fit on its way, so there is nothing to fill up.
        0 if profile.small or profile.is_agent else profile.context_length,
        sum(isinstance(message, User) for message in history),
        profile.is_agent,
    )
