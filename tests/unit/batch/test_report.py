"""The HTML pages: what they show, and that no text of a model can do anything in them."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

from hermes.batch.charts import histogram, money, nice_step, percent, points, short_count
from hermes.batch.report import Report, render_comparison
from hermes.batch.results import RunResults, compare
from hermes.core.model import Usage
from hermes.envs import Failure, RecordedCall, Trace, TraceRecorder
from hermes.security import Redactor

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'text' <!--"
SECRET = "value-that-is-a-secret-4711"
REDACT = Redactor([SECRET]).redact


class Page(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data

    def data(self, name: str) -> dict:
        (found,) = [text for attributes, text in self.scripts if attributes.get("id") == name]
        return json.loads(found)


def trace(
    key: str, task: str = "t", *, text: str = "Done.", result: str = "ok", reward: float = 1.0,
    failure: Failure | None = None, cost: float | None = 0.25,
) -> Trace:  # fmt: skip
    recorder = TraceRecorder()
    call = {
        "id": "c1",
        "function": {"name": "terminal", "arguments": json.dumps({"command": text})},
    }
    messages = [{"role": "system", "content": "S" * 300}, {"role": "user", "content": text}]
    reply = {"role": "assistant", "content": "", "reasoning_content": text, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": result}
    last = {"role": "assistant", "content": text}
    usage = Usage(input=100, output=5)
    for before, after in ((messages, reply), ([*messages, reply, answer], last)):
        recorder.add(RecordedCall(messages=before, reply=after, usage=usage, cost_usd=cost))
    return Trace(
        key, task, task, "model", nodes=recorder.nodes, seconds=3.0, started_at=1e9,
        rewards={} if failure else {text: reward}, failure=failure,
        metrics={text: 1.0}, exit_reason=text,
        tools=[{"type": "function", "function": {"name": text}}],
    )  # fmt: skip


def render(*traces: Trace, name: str = "run", **limits: int) -> str:
    return Report(RunResults(name, traces), REDACT, **limits).render()


def assert_harmless(text: str, scripts: int) -> Page:
    """Only our script can run: the policy allows its hash, and there is no other way in."""
    page = Page(text)
    running = [code for attributes, code in page.scripts if "type" not in attributes]
    assert len(running) == scripts
    (policy,) = [
        attributes["content"]
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none';")
    for code in running:
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"script-src 'sha256-{digest}'" in policy
    names = {tag for tag, _ in page.tags}
    assert not names & {"img", "iframe", "link", "object", "embed"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"https?://", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
    return page


def test_hostile_text_stays_text() -> None:
    failure = Failure("task", HOSTILE, HOSTILE)
    page = assert_harmless(
        render(
            trace("1", HOSTILE, text=HOSTILE, result=HOSTILE),
            trace("2", HOSTILE, text=HOSTILE, failure=failure),
            name=HOSTILE,
        ),
        scripts=1,
    )
    detail = page.data("trace-1-data")
    assert [message["role"] for message in detail["messages"]] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert detail["messages"][3]["text"] == HOSTILE
    assert page.data("trace-0-data")["failure"]["message"] == HOSTILE
    assert page.data("data")["rows"][0]["task"] == HOSTILE
    two = RunResults(HOSTILE, [trace("1", HOSTILE, text=HOSTILE)])
    assert_harmless(render_comparison(compare(two, two), REDACT), scripts=0)


def test_script_of_the_page_never_writes_html() -> None:
    code = Page(render(trace("1"))).scripts[-1][1]
    assert "textContent" in code
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in code


def test_secrets_are_redacted_also_at_a_cut() -> None:
    text = f"the key is {SECRET} and sk-proj-{'a1B2' * 12}"
    page = render(
        trace("1", SECRET, text=text, result=text),
        trace("2", text=text, failure=Failure("task", "E", text)),
    )
    assert SECRET not in page
    assert "a1B2a1B2" not in page
    assert "…[redacted]" in page
    # The limit is in the middle of the secret, whose half would not be recognised.
    page = render(trace("1", result="x" * 10 + SECRET + "y" * 200), max_result=40)
    assert SECRET[:12] not in page


def test_long_results_are_cut_with_their_number() -> None:
    page = Page(render(trace("1", result="z" * 1500), max_result=1000))
    result = page.data("trace-0-data")["messages"][3]
    assert len(result["text"]) < 1100
    assert result["cut"] == 500


def test_conversations_beyond_the_limit_are_left_out_and_counted() -> None:
    failed = trace("9", "b", failure=Failure("provider", "Overloaded", "busy"))
    results = RunResults("r", [*(trace(f"{n}") for n in range(6)), failed])
    report = Report(results, REDACT, max_bytes=2500)
    text = report.render()
    page = Page(text)
    stored = [a["id"] for a, _ in page.scripts if str(a.get("id", "")).startswith("trace-")]
    assert 0 < len(stored) < 7
    assert report.left_out == 7 - len(stored)
    assert stored[0] == "trace-0-data"
    assert page.data("data")["rows"][0]["outcome"] == "error", "failures are kept first"
    assert f"The conversations of {report.left_out} traces are left out" in text
    assert len(page.data("data")["rows"]) == 7, "the rows stay"


def test_equal_prompts_are_stored_once() -> None:
    page = Page(render(trace("1"), trace("2")))
    assert page.data("data")["shared"] == ["S" * 300]
    assert page.data("trace-0-data")["messages"][0]["text"] == 0


def test_headline_and_tables_have_the_figures() -> None:
    text = render(
        trace("1", "a"), trace("2", "a", reward=0.0), trace("3", "b"),
        trace("4", "b", failure=Failure("sandbox", "BackendUnavailable", "docker is not running")),
    )  # fmt: skip
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text.partition("<script")[0]))
    assert "Pass rate 75%" in plain
    assert "95 % interval 26% to 96%" in plain
    assert "Mean reward 0.75" in plain
    assert "Cost $2.00" in plain
    assert "Failures 1 1 sandbox" in plain
    assert "BackendUnavailable: docker is not running" in plain
    assert "Wilson score intervals" in plain


def test_run_with_failures_only_has_a_page() -> None:
    text = render(trace("1", failure=Failure("provider", "Overloaded", "busy"), cost=None))
    assert "no rollout was scored" in text
    assert "<figure" not in text


def test_comparison_shows_each_task_with_its_state() -> None:
    before = RunResults("one", [trace("1", "up", reward=0.0), trace("2", "gone")])
    after = RunResults("two", [trace("1", "up"), trace("2", "fresh")])
    text = render_comparison(compare(before, after), REDACT)
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
    assert "+100 points" in plain
    for words in ("up improved", "gone missing", "fresh new"):
        assert words in plain


def test_numbers_are_short() -> None:
    assert [percent(value) for value in (0, 0.05, 0.666, 1)] == ["0%", "5.0%", "67%", "100%"]
    assert [points(value) for value in (0.25, -0.1, 0.001)] == ["+25", "−10", "0"]
    assert [money(value) for value in (None, 0, 0.00123, 12.5)] == ["–", "$0", "$0.0012", "$12.50"]
    assert [short_count(n) for n in (9_999, 50_700, 1_390_000)] == ["9,999", "50.7k", "1.39M"]


def test_histogram_counts_every_value_once() -> None:
    assert [nice_step(span, 12) for span in (0, 0.11, 9, 12, 100)] == [1, 0.01, 1, 1, 10]
    values = [(0.0, "pass"), (0.03, "pass"), (0.05, "fail"), (0.1, "fail")]
    bars = re.findall(r'class="bar (\w+)".*?height="([\d.]+)"', histogram(values, "x"))
    assert [kind for kind, _ in bars] == ["pass", "pass", "fail", "fail"]
    assert {height for _, height in bars} == {"116.0"}
