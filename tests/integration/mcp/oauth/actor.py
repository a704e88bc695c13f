"""A process that uses a stored login: `actor.py FOLDER URL [full-disk]`.

It waits for a line, so that several begin at once, and says which tokens it gave.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from hermes.mcp.oauth import stored_authorizer


async def main(folder: str, url: str, scene: str = "") -> None:
    authorizer = stored_authorizer("tickets", url, Path(folder))
    sys.stdin.readline()
    if scene == "full-disk":
        sys.dont_write_bytecode = True  # Python would keep half a file as if it were whole
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    given = [await authorizer.headers() for _ in range(2)]
    sys.stdout.write(json.dumps([each["Authorization"] for each in given]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
