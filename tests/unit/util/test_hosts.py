"""Hosts as servers and addresses name them."""

import pytest

from hermes.util.hosts import from_here, http_address, is_loopback


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost"]
)
def test_only_this_machine_reaches_it(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.org", "127.0.0.1.nip.io", "2130706433"],
)
def test_others_reach_it(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "reached", "address"),
    [
        ("0.0.0.0", "127.0.0.1", "http://0.0.0.0:80"),
        ("::", "::1", "http://[::]:80"),
        ("[::]", "::1", "http://[::]:80"),
        ("", "127.0.0.1", "http://:80"),
        ("10.0.0.1", "10.0.0.1", "http://10.0.0.1:80"),
        ("[::1]", "::1", "http://[::1]:80"),
    ],
)
def test_where_a_server_is(host, reached, address):
    assert (from_here(host), http_address(host, 80)) == (reached, address)
