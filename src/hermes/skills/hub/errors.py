"""What can go wrong between this machine and a skill somewhere else.

HermesError
└── HubError
    ├── Unreachable      the service did not answer, or not sensibly
    │   └── RateSpent    it answers no more questions for now
    ├── NotThere         there is no such skill, folder, branch or repository
    ├── Unfit            what came is no skill we would put on a disk
    └── Refused          the scan, or the user, said no
"""

import msgspec

from hermes.core.errors import HermesError

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding raises for what is not the JSON that was expected."""


class HubError(HermesError):
    """What strangers wrote may be part of it: no character of it steers a terminal."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(_printable(message), hint=_printable(hint))


class Unreachable(HubError):
    pass


class RateSpent(Unreachable):
    pass


class NotThere(HubError):
    exit_code = 2


class Unfit(HubError):
    pass


class Refused(HubError):
    pass


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
