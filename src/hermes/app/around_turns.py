"""What happens at the beginning and the end of a session's turns."""

from collections.abc import Callable

from hermes.agent import AfterTurn
from hermes.app.hooked import HookedSession
from hermes.app.looking_back import LookingBack
from hermes.app.parts import AppParts
from hermes.app.prompting import Opening
from hermes.app.remembering import Remembering
from hermes.app.request import SessionRequest
from hermes.app.reviews import Reviews
from hermes.app.saved_turns import SavedTurns
from hermes.app.session_models import AuxiliaryRouter
from hermes.app.titles import Titles


class AroundTurns:
    """Of one session; `own` is False for that of a subagent."""

    def __init__(
        self,
        parts: AppParts,
        request: SessionRequest,
        told: HookedSession,
        remembering: Remembering | None,
        *,
        own: bool,
    ) -> None:
        self._parts, self._settings = parts, parts.loaded.settings
        self._request, self._told, self._own = request, told, own
        self._remembering = remembering

    def openings(self) -> tuple[Opening, ...]:
        """What is said beside the user's message."""
        recall = (self._remembering.recall,) if self._remembering else ()
        return (self._told.opening, *recall)

    def at_end(self) -> tuple[AfterTurn, ...]:
        """Done before a turn is over."""
        wanted = self._settings.agent.save_trajectories and self._own
        saved = (SavedTurns(self._request.working_folder),) if wanted else ()
        remembered = (self._remembering.ended,) if self._remembering else ()
        return (*saved, *remembered, self._told.ended)

    def beside(self, auxiliary: AuxiliaryRouter, looking: LookingBack) -> tuple[AfterTurn, ...]:
        """Done after a turn, while the user thinks; nothing of it is for a small model."""
        if auxiliary.main.profile.small:
            return ()
        titled = self._settings.sessions.auto_title
        titles = (Titles(self._parts.store, auxiliary),) if titled else ()
        return (*titles, *self._reviews(looking, lambda: auxiliary.session_id))

    def _reviews(
        self, looking: LookingBack, session_id: Callable[[], str]
    ) -> tuple[AfterTurn, ...]:
        skills = self._settings.skills
        wanted = skills.review != "off" and skills.creation_nudge_interval
        if not wanted or not self._own or not self._request.goes_on:
            return ()
        manage = self._parts.skills.writing_tool(session_id, review=True)
        tools = {"skills_list": None, "skill_view": None, "skill_manage": manage}
        interval = skills.creation_nudge_interval
        return (Reviews(looking, tools, interval, self._parts.tell),)
