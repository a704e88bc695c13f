"""What can go wrong between this machine and a skill somewhere else.

HermesError
└── HubError
    ├── Unreachable      the service did not answer, or not sensibly
    │   └── RateSpent    it answers no more questions for now
    ├── NotThere         there is no such skill, folder, branch or repository
    ├── Unfit            what came is no skill we would put on a disk
    └── Refused          the scan, or the user, said no
"""

from hermes.core.errors import HermesError


class HubError(HermesError):
    pass


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
