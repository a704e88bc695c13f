"""The target of a reply is stored as long as it may be needed."""

import os
import time

from hermes.gateway.platforms.webhook import adapter
from hermes.gateway.platforms.webhook.adapter import DeliveryStore, ReplyDelivery


def test_old_deliveries_are_deleted(tmp_path):
    kept = DeliveryStore(tmp_path)
    kept.save("one:1", ReplyDelivery("log"))
    (file,) = tmp_path.iterdir()
    long_ago = time.time() - adapter.KEEP_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    kept.save("one:2", ReplyDelivery("log"))
    assert kept.find("one:1") == ReplyDelivery("log")  # once a day is enough
    kept._cleaned -= adapter.CLEAN_SECONDS + 1
    kept.save("one:3", ReplyDelivery("log"))
    assert (kept.find("one:1"), kept.find("one:2")) == (None, ReplyDelivery("log"))
