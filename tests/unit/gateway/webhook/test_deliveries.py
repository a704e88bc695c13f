"""Where answers go is kept as long as somebody may answer."""

import os
import time
from pathlib import Path

from hermes.gateway.platforms.webhook import adapter
from hermes.gateway.platforms.webhook.adapter import Deliveries, Delivery


def test_old_ones_are_forgotten_while_the_gateway_runs(tmp_path: Path) -> None:
    kept = Deliveries(tmp_path)
    kept.keep("one:1", Delivery("log"))
    (file,) = tmp_path.iterdir()
    long_ago = time.time() - adapter.KEEP_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    kept.keep("one:2", Delivery("log"))
    assert kept.find("one:1") == Delivery("log")  # once a day is enough
    kept._cleaned -= adapter.CLEAN_SECONDS + 1
    kept.keep("one:3", Delivery("log"))
    assert (kept.find("one:1"), kept.find("one:2")) == (None, Delivery("log"))
