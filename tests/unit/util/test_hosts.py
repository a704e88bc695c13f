"""Hosts as servers and addresses name them."""

from hermes.util.hosts import from_here, http_address, is_loopback

HERE = ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LocalHost")
LOOKALIKES = ("localhost.evil.org", "127.0.0.1.nip.io", "2130706433")
ELSEWHERE = ("", "0.0.0.0", "::", "10.0.0.1", *LOOKALIKES)
SERVERS = {
    "0.0.0.0": ("127.0.0.1", "http://0.0.0.0:80"),
    "::": ("::1", "http://[::]:80"),
    "[::]": ("::1", "http://[::]:80"),
    "": ("127.0.0.1", "http://:80"),
    "10.0.0.1": ("10.0.0.1", "http://10.0.0.1:80"),
    "[::1]": ("::1", "http://[::1]:80"),
}


def test_loopback_hosts_are_recognised_and_lookalikes_are_not():
    assert tuple(filter(is_loopback, HERE + ELSEWHERE)) == HERE


def test_bind_host_maps_to_a_reachable_address():
    assert {host: (from_here(host), http_address(host, 80)) for host in SERVERS} == SERVERS
