"""A model in a process of its own that answers at once, or, told to hold, in the middle waits.

python -m bench.gateway_model
"""

import sys

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike

ANSWER = "Hello to you, and a good day."
HOLD = "hold the line"


def answer(request: RecordedRequest) -> StepLike:
    said = str(request.body["messages"][-1]["content"])
    if HOLD in said:
        return Step((Text(ANSWER),), faults=(Stall(after=1),))
    return ANSWER


def main() -> None:
    server = ModelServer(answer)
    server.requests = _Nothing()
    server.start()
    print(server.url, flush=True)
    sys.stdin.read()


class _Nothing(list[RecordedRequest]):
    """Keeps nothing: a thousand requests are no business of the measurement."""

    def append(self, _request: RecordedRequest) -> None: ...


if __name__ == "__main__":
    main()
