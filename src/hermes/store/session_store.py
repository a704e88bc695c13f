"""`port.SessionStore` over an engine: the same for both databases."""

from hermes.store.facets.catalogue import Catalogue
from hermes.store.facets.claims import Claims
from hermes.store.facets.conversations import Conversations
from hermes.store.facets.mail import Mail
from hermes.store.facets.responses import Responses
from hermes.store.facets.upkeep import Upkeep


class SqlSessionStore(Conversations, Catalogue, Upkeep, Mail, Claims, Responses):
    """Opened by the first call."""
