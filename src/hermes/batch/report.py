"""The HTML pages of `hermes eval report` and `hermes eval compare`.

Each page is one file without references to others. Its text comes from models and tools and is
never trusted: it is escaped in HTML, added as text by the script of the page, and a policy in the
page forbids every script but that one. Secrets are redacted.
"""

import base64
import hashlib
import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.batch.charts import (
    change_strip,
    chart,
    decimal,
    headline_strip,
    money,
    percent,
    points,
    rate_strip,
    seconds,
    short_count,
)
from hermes.batch.results import (
    Comparison,
    Rate,
    RateChange,
    RunResults,
    RunSummary,
    TaskChange,
    TaskResult,
    model_calls,
)
from hermes.envs import Failure, Trace
from hermes.envs.trace import content_text
from hermes.util.text import cut_middle, human_size, many

Redact = Callable[[str], str]

MAX_RESULT_CHARS = 6_000  #: Of a tool result on the page; the middle is left out.
MAX_TEXT_CHARS = 30_000  #: Of any other text.
MAX_PAGE_BYTES = 32_000_000
"""Of all conversations. Those that exceed it are left out; their rows stay."""
SHARED_CHARS = 200  #: A prompt from this length is stored once, not in each trace.
MAX_MESSAGE_CHARS = 600  #: Of a failure in the table of failures.
MAX_MESSAGE_ROWS = 50  #: Of the table of failures.

METHOD = (
    "Intervals are 95 % Wilson score intervals. The one of the whole run uses the effective number"
    " of rollouts, because repeats of the same task are not independent. Each task has the same"
    " weight. Failed rollouts are not part of any rate or mean."
)
FOOTER = (
    f"<footer>Made by Hermes {__version__}. Secrets that were recognised are redacted.</footer>"
)
COMPARISON_METHOD = (
    "Only tasks with the same content that were scored in both runs are paired. The interval of the"
    " change is Newcombe’s 95 % interval for paired rates; that of one task is for independent"
    " rollouts."
)


class PageWriter:
    """Escapes and redacts the text of a page."""

    def __init__(self, redact: Redact) -> None:
        self.redact = lru_cache(maxsize=4096)(redact)

    def text(self, value: str) -> str:
        return html.escape(self.redact(value))

    def page(self, title: str, body: str, data: Iterable[str] = (), script: str = "") -> str:
        """Return the whole page. `data` are elements with JSON for the script."""
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed = f"script-src 'sha256-{digest}'; " if script else ""
        policy = (
            f"default-src 'none'; style-src 'unsafe-inline'; {allowed}base-uri 'none';"
            " form-action 'none'"
        )
        return "\n".join([
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{self.text(title)}</title>",
            f"<style>\n{_resource('report.css')}</style></head><body>",
            body,
            *data,
            f"<script>{script}</script>" if script else "",
            "</body></html>\n",
        ])  # fmt: skip


@lru_cache
def _resource(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def json_element(name: str, document: str) -> str:
    """Return a data block. `<` is escaped, so that no text can end the element."""
    escaped = document.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{escaped}</script>'


# The report of one run


class Report:
    """The page of one run."""

    def __init__(
        self,
        results: RunResults,
        redact: Redact,
        *,
        max_result: int = MAX_RESULT_CHARS,
        max_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        self._results, self._max_result, self._max_bytes = results, max_result, max_bytes
        self._writer = PageWriter(redact)
        self._summary, self._tasks = results.summary(), results.tasks()
        self._shared: dict[str, int] = {}
        self.left_out = 0  #: Traces whose conversation is not on the page, after `render`.

    def render(self) -> str:
        """Return the page."""
        traces = self._ordered()
        details = list(self._details(traces))
        rows = self._rows(traces)
        data = msgspec.json.encode({"rows": rows, "shared": list(self._shared)}).decode()
        sections = (
            self._header, self._headline, self._task_section, self._distributions, self._failures,
            self._trace_section,
        )  # fmt: skip
        body = "\n".join([*(section() for section in sections), FOOTER])
        elements = [json_element("data", data), *details]
        title = f"{self._results.name} – Hermes evaluation"
        return self._writer.page(title, body, elements, _resource("report.js"))

    def _ordered(self) -> list[Trace]:
        """Return failures and traces by task; conversations of the first are kept first."""
        by_task = lambda trace: (trace.task_key, trace.started_at)  # noqa: E731 - two uses
        results = self._results
        return [*sorted(results.failed, key=by_task), *sorted(results.traces, key=by_task)]

    def _header(self) -> str:
        text, summary = self._writer.text, self._summary
        rollouts = summary.scored + summary.failures
        start = min(trace.started_at for trace in self._results.all_traces())
        facts = [
            summary.model,
            many(summary.tasks, "task"),
            many(rollouts, "rollout"),
            f"{datetime.fromtimestamp(start).astimezone():%-d %B %Y, %H:%M}" if start else "",
        ]
        spans = "".join(f"<span>{text(fact)}</span>" for fact in facts if fact)
        return (
            f'<p class="eyebrow">Hermes evaluation</p><h1>{text(self._results.name)}</h1>'
            f'<p class="facts">{spans}</p>'
        )

    def _headline(self) -> str:
        summary = self._summary
        repeats = ""
        if summary.scored > summary.tasks:
            repeats = (
                f"; {summary.solved_once} of {summary.tasks} tasks passed at least once,"
                f" {summary.solved_always} each time"
            )
        rate = summary.rate
        main = '<p class="value">–</p><p class="more">no rollout was scored</p>'
        if rate is not None:
            main = (
                f'<p class="value">{percent(rate.value)}</p>{headline_strip(rate)}'
                f'<p class="more">95 % interval {percent(rate.low)} to {percent(rate.high)}'
                f"{repeats}</p>"
            )
        usage = summary.usage
        unpriced = f"{summary.unpriced} without a price" if summary.unpriced else "all rollouts"
        parts = ", ".join(f"{count} {name}" for name, count in sorted(summary.boundaries.items()))
        boxes = [
            _box("Mean reward", decimal(summary.reward), "mean of the tasks"),
            _box("Cost", money(summary.cost_usd), unpriced),
            _box(
                "Tokens",
                short_count(usage.total),
                f"{short_count(usage.prompt)} read, {short_count(usage.output)} written",
            ),
            _box("Wall time", seconds(summary.seconds), "while rollouts ran"),
            _box(
                "Failures",
                f"{summary.failures}",
                self._writer.text(parts) or "none",
                "bad" if summary.failures else "",
            ),
        ]
        first = f'<div class="figure card main"><p class="name">Pass rate</p>{main}</div>'
        note = f"A rollout passes with a reward of {self._results.pass_reward:g} or more. {METHOD}"
        return (
            f'<section class="headline">{first}{"".join(boxes)}</section><p class="note">{note}</p>'
        )

    def _task_section(self) -> str:
        head = (
            _head("Task") + _head("Passed", "n")
            + '<th class="strip"><span class="axis"><span>0%</span><span>50%</span>'
            "<span>100%</span></span></th>"
            + _head("Rate", "n percent", sort="ascending") + _head("Reward", "n wide")
            + _head("Cost", "n wide") + _head("Time", "n wide")
            + _head("Calls", "n wide")
        )  # fmt: skip
        worst_first = sorted(
            self._tasks, key=lambda task: (task.rate.value if task.rate else 2.0, task.key)
        )
        rows = "".join(map(self._task_row, worst_first))
        return (
            "<h2>Pass rate by task</h2>"
            '<p class="note">The dot is the pass rate, the band its 95 % interval. Reward, cost,'
            " time and model calls are means. Click a task for its traces.</p>"
            f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
            "</table></div>"
        )

    def _task_row(self, task: TaskResult) -> str:
        key = self._writer.text(task.key)
        failures = f' <span class="chip error">{task.failures} failed</span>' * bool(task.failures)
        passed = f'{task.passed}<span class="quiet">/{task.scored}</span>' if task.scored else "–"
        return (
            f'<tr><td class="task" data-value="{key}"><button class="link" data-task="{key}">'
            f"{key}</button>{failures}</td>"
            + _cell(task.passed, passed)
            + f'<td class="strip">{rate_strip(task.rate)}</td>'
            + _cell(
                task.rate.value if task.rate else None,
                percent(task.rate.value) if task.rate else "–",
                "n percent",
            )
            + _cell(task.reward, decimal(task.reward), "n wide")
            + _cell(task.cost_usd, money(task.cost_usd), "n wide")
            + _cell(task.seconds, seconds(task.seconds), "n wide")
            + _cell(task.calls, decimal(task.calls, 1), "n wide")
            + "</tr>"
        )

    def _outcome(self, trace: Trace) -> str:
        if trace.failure is not None:
            return "error"
        if trace.reward is None:
            return "none"
        return "pass" if self._results.passes(trace) else "fail"

    def _distributions(self) -> str:
        scored = [(trace, self._outcome(trace)) for trace in self._results.traces]
        if not scored:
            return ""
        costs = [(trace.cost_usd, kind) for trace, kind in scored if trace.cost_usd is not None]
        times = [(trace.seconds, kind) for trace, kind in scored]
        calls = [(float(model_calls(trace)), kind) for trace, kind in scored]
        charts = [
            chart("Cost", costs, "US dollars per rollout", money),
            chart("Time", times, "seconds per rollout", seconds),
            chart("Model calls", calls, "model calls per rollout", "{:.0f}".format, whole=True),
        ]
        kinds = {kind for _, kind in scored}
        names = (("pass", "passed"), ("fail", "not passed"), ("none", "no reward"))
        legend = "".join(f'<li class="{k}">{name}</li>' for k, name in names if k in kinds)
        return (
            f"<h2>Distributions</h2><p class='note'>Number of scored rollouts.</p>"
            f'<ul class="legend">{legend}</ul><div class="charts">{"".join(charts)}</div>'
        )

    def _failures(self) -> str:
        failed = self._results.failed
        if not failed:
            return ""
        text = self._writer.text
        groups: Counter[tuple[str, str, str]] = Counter()
        tasks: dict[tuple[str, str, str], str] = {}
        for trace in failed:
            assert trace.failure is not None
            group = (trace.failure.boundary, trace.failure.error, trace.failure.message)
            groups[group] += 1
            tasks.setdefault(group, trace.task_key)
        rows = "".join(
            f'<tr><td><span class="chip error">{text(boundary)}</span></td>'
            f'<td class="n">{count}</td><td class="message">{text(error)}:'
            f" {html.escape(self._cut(message, MAX_MESSAGE_CHARS)[0])}</td>"
            '<td class="wide"><button class="link" data-only="error"'
            f' data-task="{text(tasks[group])}">{text(tasks[group])}</button></td></tr>'
            for group, count in groups.most_common(MAX_MESSAGE_ROWS)
            for boundary, error, message in [group]
        )
        more = len(groups) - MAX_MESSAGE_ROWS
        note = f" {more} further messages are not listed." if more > 0 else ""
        return (
            "<h2>Failures</h2><p class='note'>Rollouts without a result, by the boundary where they"
            f" failed. They are not scored; <code>--retry-failed</code> runs them again.{note}</p>"
            '<div class="card scroll"><table><thead><tr><th>Boundary</th><th class="n">Rollouts'
            "</th><th>Message</th><th class='wide'>Task</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _trace_section(self) -> str:
        left_out = ""
        if self.left_out:
            left_out = (
                f" The conversations of {many(self.left_out, 'trace')} are left out, because the"
                f" page would be larger than {human_size(self._max_bytes)}."
            )
        return _resource("report_traces.html").replace("LEFT_OUT", left_out)

    # Data for the script

    def _rows(self, traces: Sequence[Trace]) -> list[dict[str, Any]]:
        numbers: Counter[str] = Counter()
        rows = []
        for index, trace in enumerate(traces):
            numbers[trace.task_key] += 1
            rows.append({
                "index": index,
                "task": self._writer.redact(trace.task_key),
                "number": numbers[trace.task_key],
                "outcome": self._outcome(trace),
                "reward": trace.reward,
                "cost": trace.cost_usd,
                "seconds": trace.seconds,
                "calls": model_calls(trace),
                "tokens": trace.usage.total,
                "model": self._writer.redact(trace.model),
            })  # fmt: skip
        return rows

    def _details(self, traces: Sequence[Trace]) -> Iterator[str]:
        """Yield the conversations as data blocks, as long as the page may grow."""
        size = 0
        self.left_out = 0
        for index, trace in enumerate(traces):
            if size >= self._max_bytes:
                self.left_out += 1
                continue
            element = json_element(
                f"trace-{index}-data", msgspec.json.encode(self._detail(trace)).decode()
            )
            size += len(element)
            yield element

    def _detail(self, trace: Trace) -> dict[str, Any]:
        redact, usage = self._writer.redact, trace.usage
        names = [str(tool.get("function", tool).get("name", "")) for tool in trace.tools]
        return {
            "rewards": [
                [redact(name), value, trace.weights.get(name, 1.0)]
                for name, value in trace.rewards.items()
            ],
            "metrics": {redact(name): value for name, value in trace.metrics.items()},
            "failure": self._failure(trace.failure),
            "retried": [self._failure(failure) for failure in trace.retried],
            "read": usage.prompt,
            "written": usage.output,
            "exit": redact(trace.exit_reason),
            "started": trace.started_at,
            "tools": [redact(name) for name in names],
            "messages": [self._message(node.message, node) for node in trace.nodes],
            "branches": [branch.nodes for branch in trace.branches()],
        }

    def _failure(self, failure: Failure | None) -> dict[str, str] | None:
        if failure is None:
            return None
        message = self._writer.redact(failure.message)
        return {"boundary": failure.boundary, "error": failure.error, "message": message}

    def _message(self, message: dict[str, Any], node: Any) -> dict[str, Any]:
        role = str(message.get("role") or "")
        limit = self._max_result if role == "tool" else MAX_TEXT_CHARS
        text, cut = self._cut(_readable(message.get("content")), limit)
        found: dict[str, Any] = {"role": self._writer.redact(role), "text": text}
        if len(text) >= SHARED_CHARS and role in ("system", "user"):
            found["text"] = self._shared.setdefault(text, len(self._shared))
        if cut:
            found["cut"] = cut
        if call_id := message.get("tool_call_id"):
            found["id"] = str(call_id)
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            found["thinking"], _ = self._cut(str(thought), MAX_TEXT_CHARS)
        if calls := message.get("tool_calls"):
            found["calls"] = [self._call(call) for call in calls]
        if node.sampled:
            found["seconds"], found["finish"] = node.seconds, node.finish_reason
            found["cost"] = node.cost_usd
            if node.usage is not None:
                found["tokens"] = [node.usage.prompt, node.usage.output]
        return found

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call.get("function") or {}
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        text, cut = self._cut(arguments, self._max_result)
        name = self._writer.redact(str(function.get("name") or ""))
        return {"id": str(call.get("id") or ""), "name": name, "arguments": text, "cut": cut}

    def _cut(self, text: str, limit: int) -> tuple[str, int]:
        """Return the text without its middle if it is long, and the number of characters left out.
        It is redacted before, because half a secret is not recognised."""
        size = len(text)
        if size > 4 * limit:  # redaction takes a second for 5 MB
            # Cut between words, so that the ends of the parts are no halves of secrets either.
            head, tail = text[:limit].rsplit(None, 1)[0], text[-limit:].split(None, 1)[-1]
            text = f"{head}\n{tail}"
        text = self._writer.redact(text)
        return cut_middle(text, limit), max(0, size - limit)


def _readable(content: Any) -> str:
    """Return the text of a message, with a note for each part that is not text."""
    if not isinstance(content, list):
        return content_text(content)
    return "\n".join(
        str(part.get("text") or f"[{part.get('type') or 'part'}]")
        for part in content
        if isinstance(part, dict)
    )


def _box(name: str, value: str, more: str, kind: str = "") -> str:
    return (
        f'<div class="figure card {kind}"><p class="name">{name}</p><p class="value">{value}</p>'
        f'<p class="more">{more}</p></div>'
    )


def _head(label: str, name: str = "", sort: str = "") -> str:
    """Return the head of a column that can be sorted; `sort` is its order now."""
    order = f' aria-sort="{sort}"' if sort else ""
    return f'<th class="{name}"{order}><button>{label}</button></th>'


def _cell(value: float | None, shown: str, name: str = "n") -> str:
    return f'<td class="{name}" data-value="{"" if value is None else value}">{shown}</td>'


# The comparison of two runs


def render_comparison(comparison: Comparison, redact: Redact) -> str:
    """Return the page that compares two runs."""
    writer = PageWriter(redact)
    text = writer.text
    title = f"{comparison.before_name} → {comparison.after_name}"
    header = (
        f'<p class="eyebrow">Hermes evaluation: comparison</p><h1>{text(title)}</h1>'
        f'<p class="facts"><span>before: {text(comparison.before.model)}</span>'
        f"<span>after: {text(comparison.after.model)}</span>"
        f"<span>{many(comparison.paired, 'task')} in both</span></p>"
    )
    sections = _comparison_headline(comparison), _figures(comparison), _changes(comparison, writer)
    body = "\n".join([header, *sections, FOOTER])
    return writer.page(f"{title} – Hermes evaluation", body)


def _comparison_headline(comparison: Comparison) -> str:
    found, before, after = comparison.change, comparison.before_rate, comparison.after_rate
    main = '<p class="value">–</p><p class="more">no task is in both runs</p>'
    if found is not None and before is not None and after is not None:
        verdict = "the interval does not contain 0" if found.is_clear else "it may be chance"
        main = (
            f'<p class="value">{points(found.value)} <small>points</small></p>'
            f"{headline_strip(after, before)}"
            f'<p class="more">from {percent(before.value)} to {percent(after.value)}; 95 % interval'
            f" {points(found.low)} to {points(found.high)}: {verdict}</p>"
        )
    boxes = [
        _box("Improved", f"{len(comparison.improved)}", "tasks"),
        _box("Worse", f"{len(comparison.worse)}", "tasks"),
        _box("New", f"{len(comparison.new)}", "only in the second run"),
        _box("Missing", f"{len(comparison.missing)}", "only in the first run"),
        _box("Edited", f"{sum(task.is_edited for task in comparison.tasks)}", "not comparable"),
    ]
    return (
        '<section class="headline"><div class="figure card main"><p class="name">Change of the pass'
        f' rate</p>{main}</div>{"".join(boxes)}</section><p class="note">{COMPARISON_METHOD}</p>'
    )


def _figures(comparison: Comparison) -> str:
    before, after = comparison.before, comparison.after
    rows: list[tuple[str, Callable[[RunSummary], str]]] = [
        ("Pass rate, all tasks", lambda run: _rate_text(run.rate)),
        ("Mean reward", lambda run: decimal(run.reward)),
        ("Rollouts scored", lambda run: f"{run.scored:,}"),
        ("Failures", lambda run: f"{run.failures:,}"),
        ("Cost", lambda run: money(run.cost_usd)),
        ("Tokens", lambda run: short_count(run.usage.total)),
        ("Wall time", lambda run: seconds(run.seconds)),
    ]
    lines = "".join(
        f'<tr><td>{name}</td><td class="n">{show(before)}</td><td class="n">{show(after)}</td></tr>'
        for name, show in rows
    )
    return (
        '<h2>Both runs</h2><div class="card scroll narrow"><table><thead><tr><th></th>'
        '<th class="n">Before</th>'
        f'<th class="n">After</th></tr></thead><tbody>{lines}</tbody></table></div>'
    )


def _rate_text(rate: Rate | None) -> str:
    if rate is None:
        return "–"
    return f"{percent(rate.value)} ({percent(rate.low)}–{percent(rate.high)})"


def _changes(comparison: Comparison, writer: PageWriter) -> str:
    rows = "".join(_change_row(task, writer) for task in comparison.tasks)
    heads = (
        '<th>Task</th><th>State</th><th class="strip"><span class="axis"><span>0%</span>'
        '<span>50%</span><span>100%</span></span></th><th class="n">Points</th>'
        '<th class="n wide">95 % interval</th><th class="n wide">Cost</th>'
        '<th class="n wide">Time</th>'
    )
    return (
        "<h2>Tasks</h2><p class='note'>The empty dot is the first run, the filled one the second."
        " Cost and time are means of the scored rollouts.</p>"
        f'<div class="card scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>'
        "</table></div>"
    )


def change_state(task: TaskChange) -> tuple[str, str]:
    """Return the state of a task in one word, and the class of its colour."""
    if task.before is None:
        return "new", ""
    if task.after is None:
        return "missing", ""
    if task.is_edited:
        return "edited", ""
    if task.change is None:
        return "not scored", ""
    if task.change.value == 0:
        return "same", ""
    return ("improved", "up") if task.change.value > 0 else ("worse", "down")


def change_interval(found: RateChange | None) -> str:
    return f"{points(found.low)} to {points(found.high)}" if found else "–"


def _change_row(task: TaskChange, writer: PageWriter) -> str:
    state, kind = change_state(task)
    before, after, found = task.before, task.after, task.change
    strip = change_strip(before.rate if before else None, after.rate if after else None)
    cost = (money(side.cost_usd) if side else "–" for side in (before, after))
    time = (seconds(side.seconds) if side else "–" for side in (before, after))
    return (
        f'<tr><td class="task">{writer.text(task.key)}</td>'
        f'<td><span class="chip {kind}">{state}</span></td><td class="strip">{strip}</td>'
        f'<td class="n">{points(found.value) if found else "–"}</td>'
        f'<td class="n wide">{change_interval(found)}</td>'
        f'<td class="n wide">{" → ".join(cost)}</td><td class="n wide">{" → ".join(time)}</td></tr>'
    )
