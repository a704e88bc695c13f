"""How long a request may take, by provider and model."""

from hermes.config.settings import Settings
from hermes.config.settings.model import ProviderModel, ProviderSettings
from hermes.providers.endpoint import Endpoint
from hermes.providers.target import Timeouts


def timeouts_for(settings: Settings, endpoint: Endpoint, model: str, *, here: bool) -> Timeouts:
    """What the settings say of the model, else of the provider, else of all.

    A server on this machine (`here`) may read a long prompt for minutes before its first word, so
    it is only held to the limit of the whole request.
    """
    general = settings.timeouts
    provider = settings.providers.get(endpoint.id, ProviderSettings())
    own = provider.models.get(model, ProviderModel())
    request = (
        own.timeout_seconds
        or provider.request_timeout_seconds
        or endpoint.request_seconds
        or general.request_seconds
    )
    stale = own.stale_timeout_seconds or provider.stale_timeout_seconds
    if stale or here:
        patience = float(stale or request)
        return Timeouts(request=request, silence=patience, read=patience, stale=patience)
    return Timeouts(
        request=request,
        silence=general.stale_seconds,
        read=general.stream_read_seconds,
        stale=general.stream_stale_seconds,
    )
