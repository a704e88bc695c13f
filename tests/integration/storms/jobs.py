"""Turns with many tool calls, each of which leaves a trace when it runs."""

import re
from collections import Counter
from pathlib import Path

import msgspec

from hermes.context.notes import SECTIONS
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Slow, Step
from hermes.core.testing.http_server import RecordedRequest
from tests.integration.storms.histories import check_request, sent

COMMANDS = (
    ("echo {id} >> trace", "echo {id} >> trace", "echo {id} >> trace; seq 1 {size}"),
    ("sleep 0.03; echo {id} >> trace",),
    ("echo {id} >> trace; seq 1 {size}", "echo {id} >> trace && sleep 0.01"),
    ("seq 1 {size}; echo {id} >> trace",),
)
"""What each reply asks for; the reply after them is the last."""
CALL = re.compile(r"call-(\d+)-(\d+)-(\d+)")
JOB = re.compile(r"job (\d+)")


class Jobs:
    """The script of a model server: works on job after job, each as far as its calls came back.

    A reply that got lost is given again, with the same ids: it may not have been handled.
    """

    def __init__(self, size: int = 5) -> None:
        self._size = size  #: Numbers a command prints.
        self._progress: Counter[int] = Counter()
        self.results: dict[str, set[str]] = {}  #: What came back for each call, in all requests.
        self.compacted = 0  #: Compactions so far, after which results may be shortened.

    def __call__(self, request: RecordedRequest) -> Step:
        if not request.body.get("tools"):
            notes = [f"## {name}\nabout the job in hand, as it was" for name in SECTIONS]
            return Step((Text("\n\n".join(notes)),), faults=(Slow(0.001),))
        check_request(request)
        for item in sent(request):
            if item.kind == "result":
                self.results.setdefault(item.id, set()).add(item.text)
        job = int(JOB.findall(request.raw.decode())[-1])
        for number, step, _ in CALL.findall(request.raw.decode()):
            if int(number) == job:
                self._progress[job] = max(self._progress[job], int(step) + 1)
        return self._step(job, self._progress[job])

    def _step(self, job: int, step: int) -> Step:
        if step == len(COMMANDS):
            return Step((Text(f"Job {job} is done."),))
        calls = [
            self._call(f"call-{job}-{step}-{n}", each) for n, each in enumerate(COMMANDS[step])
        ]
        return Step((Text(f"Step {step} of job {job}."), *calls), faults=(Slow(0.0005),))

    def _call(self, call_id: str, command: str) -> ToolCall:
        arguments = {"command": command.format(id=call_id, size=self._size)}
        return ToolCall(call_id, "terminal", msgspec.json.encode(arguments).decode())


def runs(folder: Path) -> Counter[str]:
    """How often each call ran."""
    trace = folder / "trace"
    return Counter(trace.read_text().split()) if trace.exists() else Counter()
