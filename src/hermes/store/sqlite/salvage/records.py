"""Values of a row, from the bytes of its record."""

import math
import struct
from collections.abc import Iterator

import msgspec

Value = None | int | float | str | bytes

_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_CONSTANTS = {0: None, 8: 0, 9: 1}
_REAL = 7
_FIRST_BLOB = 12


class Unreadable(Exception):
    """These bytes cannot be what they should be."""


class Record(msgspec.Struct, frozen=True):
    values: tuple[Value, ...]
    is_cut: bool = False
    """The bytes end early: the last value is the readable beginning of a text, or None, and the
    columns after it are unknown."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next thing begins."""
    value = 0
    for count in range(9):
        if at + count >= len(data):
            raise Unreadable("a number is cut off")
        byte = data[at + count]
        if count == 8:
            value = value << 8 | byte
            break
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value - (1 << 64) if value >> 63 else value, at + 9


def decode(payload: bytes, size: int) -> Record:
    """The record in `payload`, of which `size` bytes should be there. Text is UTF-8, as in every
    store. Raises `Unreadable`."""
    body, at = varint(payload, 0)
    if not at <= body <= len(payload):
        raise Unreadable("the head of a record is cut off")
    kinds: list[int] = []
    while at < body:
        kind, at = varint(payload, at)
        kinds.append(kind)
    lengths = [_length(kind) for kind in kinds]
    if at != body or body + sum(lengths) != size:
        raise Unreadable("a record does not have the length it says")
    return Record(*_values(payload, body, zip(kinds, lengths, strict=True)))


def _values(
    payload: bytes, at: int, columns: Iterator[tuple[int, int]]
) -> tuple[tuple[Value, ...], bool]:
    values: list[Value] = []
    for kind, length in columns:
        end = at + length
        if end > len(payload):
            is_text = kind > _FIRST_BLOB and kind % 2
            values.append(payload[at:].decode("utf-8", "ignore") if is_text else None)
            return tuple(values), True
        values.append(_value(kind, payload[at:end]))
        at = end
    return tuple(values), False


def _length(kind: int) -> int:
    if kind in _CONSTANTS:
        return 0
    if kind in _INTEGER_BYTES:
        return _INTEGER_BYTES[kind]
    if kind == _REAL:
        return 8
    if kind < _FIRST_BLOB:
        raise Unreadable("a value of an unknown kind")
    return (kind - _FIRST_BLOB) // 2


def _value(kind: int, data: bytes) -> Value:
    if kind in _CONSTANTS:
        return _CONSTANTS[kind]
    if kind in _INTEGER_BYTES:
        return int.from_bytes(data, "big", signed=True)
    if kind == _REAL:
        number: float = struct.unpack(">d", data)[0]
        return None if math.isnan(number) else number
    return data.decode("utf-8", "replace") if kind % 2 else data
