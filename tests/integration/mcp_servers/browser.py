"""A browser for tests: `browser.py ADDRESS`. The person in front of it agrees to everything."""

import sys
import urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(sys.argv[1], timeout=20) as page:
    page.read()
