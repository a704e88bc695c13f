"""A secret may be sent to its own service, and to no other."""

import json
from pathlib import Path

from hermes.security.injection import scan

CASES = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))


def test_curl_sends_a_secret_only_to_the_service_it_belongs_to():
    curl = CASES["exfil_curl"]
    assert [each for each in curl["found"] if scan(each) != ("exfil_curl",)] == []
    assert [each for each in curl["clean"] if scan(each)] == []


def test_orders_to_read_secrets_are_found():
    def is_order(text: str) -> bool:
        return bool({"read_secrets", "exfil_curl"} & set(scan(text)))

    assert [each for each in CASES["read_secrets"]["found"] if not is_order(each)] == []
    assert [each for each in CASES["read_secrets"]["clean"] if is_order(each)] == []
