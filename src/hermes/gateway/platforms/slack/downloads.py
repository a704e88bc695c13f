"""Files that people sent."""

from urllib.parse import urlsplit

import aiohttp

from hermes.gateway.events import Media
from hermes.gateway.platforms.base import AdapterError
from hermes.gateway.platforms.kit.media import MediaCache, TooLarge
from hermes.gateway.platforms.slack.failures import TROUBLE, code_of
from hermes.gateway.platforms.slack.workspace import Workspace, patiently

CHUNK = 65_536
DOWNLOADING = aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=60)
HOSTS = (".slack.com", ".slack-edge.com", ".slack-files.com")


async def fetch(
    workspace: Workspace,
    file: str,
    media: Media,
    limit: int,
    session: aiohttp.ClientSession,
    cache: MediaCache,
) -> Media:
    """The file in the cache. Raises `AdapterError`."""
    try:
        data = (await patiently(workspace.client.files_info, file=file))["file"]
        if int(data.get("size") or 0) > limit:
            raise TooLarge(media.name or "the file", limit)
        url = str(data.get("url_private_download") or data.get("url_private") or "")
        if not _is_slacks(url, workspace.client.base_url):
            raise AdapterError("the file is not on Slack")
        headers = {"Authorization": f"Bearer {workspace.client.token}"}
        async with session.get(
            url,
            headers=headers,
            allow_redirects=False,
            timeout=DOWNLOADING,
            proxy=workspace.client.proxy,
        ) as response:
            if response.status != 200:  # who may not see it is sent to the page for signing in
                raise AdapterError(
                    f"Slack answered {response.status} for the file",
                    hint="The app needs the scope files:read.",
                )
            return await cache.save(response.content.iter_chunked(CHUNK), media, limit)
    except TROUBLE as error:
        what = code_of(error) or type(error).__name__
        raise AdapterError(f"the file did not come from Slack: {what}") from error


def _is_slacks(url: str, base_url: str) -> bool:
    """Our token goes nowhere else."""
    there, api = urlsplit(url), urlsplit(base_url)
    if (there.scheme, there.netloc) == (api.scheme, api.netloc):
        return True
    return there.scheme == "https" and (there.hostname or "").endswith(HOSTS)
