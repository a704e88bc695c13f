"""A model that answers immediately, or stops in the middle of the answer if asked to hold.

python -m bench.gateway_model
"""

import sys

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike

ANSWER = "Hello to you, and a good day."
HOLD = "hold the line"


def answer(request: RecordedRequest) -> StepLike:
    text = str(request.body["messages"][-1]["content"])
    if HOLD in text:
        return Step((Text(ANSWER),), faults=(Stall(after=1),))
    return ANSWER


def main() -> None:
    server = ModelServer(answer)
    server.requests = _DiscardingList()
    server.start()
    print(server.url, flush=True)
    sys.stdin.read()


class _DiscardingList(list[RecordedRequest]):
    """Keeps no requests, so that they take no memory during the measurement."""

    def append(self, _request: RecordedRequest) -> None: ...


if __name__ == "__main__":
    main()
