"""`port.SessionStore` over an engine: the same for both databases."""

from hermes.store.facets.catalogue import Catalogue
from hermes.store.facets.conversations import Conversations
from hermes.store.facets.upkeep import Upkeep


class SqlSessionStore(Conversations, Catalogue, Upkeep):
    """Opened by the first call."""
