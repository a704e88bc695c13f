"""Addresses in every spelling, against what the operating system makes of them."""

import ipaddress
import socket

from hypothesis import example, given
from hypothesis import strategies as st

from hermes.security.urls import (
    RESERVED,
    UrlHost,
    is_numeric,
    non_public_reason,
    parse_host,
    parse_numeric_host,
)

SPELLINGS = (str, "0{:o}".format, hex, "0X{:X}".format, "000{:o}".format)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, ipaddress.IPv4Address]:
    """An address, written in one of the many ways."""
    address = draw(st.ip_addresses(v=4))
    octets = list(address.packed)
    parts = draw(st.integers(1, 4))
    values = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]))]
    written = [draw(st.sampled_from(SPELLINGS))(value) for value in values]
    return ".".join(written), ipaddress.IPv4Address(int(address))


@given(spelled())
def test_every_spelling_of_an_address_is_that_address(written):
    text, address = written
    assert parse_numeric_host(text) == address
    assert is_numeric(text)


@given(st.text("0123456789abcdefxX.", min_size=1, max_size=20))
@example("0x")
@example("1.0x")
@example("08")
def test_hosts_the_system_parses_as_addresses_are_never_names(text: str) -> None:
    try:
        real = ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return
    assert parse_numeric_host(text.lower()) == real
    host = parse_host(text)
    if isinstance(host, UrlHost):
        assert host.address == real
        assert host.name == str(real)


@given(st.sampled_from(" ".join(RESERVED.values()).split()), st.integers(0, 2**128))
def test_no_address_of_a_reserved_network_is_public(network: str, offset: int) -> None:
    space = ipaddress.ip_network(network)
    assert non_public_reason(space[offset % space.num_addresses])


@given(st.ip_addresses())
def test_addresses_python_calls_private_are_not_public(address):
    if address.is_private or address.is_multicast or address.is_reserved or address.is_unspecified:
        assert non_public_reason(address) or str(address).startswith("64:ff9b::")
