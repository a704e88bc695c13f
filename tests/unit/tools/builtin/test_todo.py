"""The todo list: what the model is shown, and that it survives a resume."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolArgumentsInvalid
from hermes.core.messages import Assistant, Text, ToolResult, User
from hermes.core.tool import ToolContext
from hermes.tools.builtin.todo import MARKS, MAX_ITEMS, MAX_TASK_CHARS, TodoItem, TodoList
from tests.workspace import make_tool


async def call(todos: TodoList, /, **arguments: Any) -> str:
    context = ToolContext("session", "call", CancelToken(), lambda _text: None)
    return await make_tool("todo", todos=todos).handler(context, arguments)


async def test_list_is_written_shown_and_counted():
    todos = TodoList()
    assert await call(todos) == "Todo list: empty"
    wanted = [
        {"id": "1", "content": "look  around\n", "status": "completed"},
        {"id": "2", "content": "dig", "status": "in_progress"},
        {"id": "3", "content": "fill"},
    ]
    shown = (
        "Todo list: 3 tasks, 1 completed, 1 in progress, 1 pending\n"
        "[x] 1: look around\n[>] 2: dig\n[ ] 3: fill"
    )
    assert await call(todos, todos=wanted) == shown
    assert await call(todos) == shown


async def test_merge_changes_and_adds_by_id_and_without_it_the_list_is_replaced():
    todos = TodoList()
    await call(todos, todos=[{"id": "a", "content": "one"}, {"id": "b", "content": "two"}])
    changes = [{"id": "a", "status": "cancelled"}, {"id": "c", "content": "three"}]
    assert (await call(todos, todos=changes, merge=True)).splitlines()[1:] == [
        "[-] a: one",
        "[ ] b: two",
        "[ ] c: three",
    ]
    assert await call(todos, todos=[{"id": "z", "content": "new"}]) == (
        "Todo list: 1 task, 1 pending\n[ ] z: new"
    )
    assert await call(todos, todos=[]) == "Todo list: empty"


async def test_two_tasks_in_progress_are_warned_about_but_kept():
    todos = TodoList()
    both = [{"id": n, "content": n, "status": "in_progress"} for n in ("a", "b")]
    assert "[2 tasks are in progress (a, b): keep only one]" in await call(todos, todos=both)
    assert len(todos.items) == 2


async def test_one_invalid_item_changes_nothing_and_a_long_one_is_cut():
    todos = TodoList()
    await call(todos, todos=[{"id": "a", "content": "one"}])
    with pytest.raises(ToolArgumentsInvalid, match="'b' needs an id and a content"):
        await call(todos, todos=[{"id": "a", "status": "completed"}, {"id": "b"}], merge=True)
    many = [{"id": str(n), "content": "x"} for n in range(MAX_ITEMS + 1)]
    with pytest.raises(ToolArgumentsInvalid, match="too many"):
        await call(todos, todos=many)
    assert todos.items == (TodoItem("a", "one"),)

    await call(todos, todos=[{"id": "a", "content": "x" * 9_999}])
    assert len(todos.items[0].content) == MAX_TASK_CHARS + 1


async def test_resumed_session_has_its_list_again():
    before = TodoList()
    first = await call(before, todos=[{"id": "1", "content": "one"}])
    second = await call(before, todos=[{"id": "1", "status": "completed"}], merge=True)
    history = (
        User.say("go"),
        ToolResult("c1", "todo", first),
        ToolResult("c2", "todo", second),
        ToolResult("c3", "todo", '{"error": "wrong"}', failed=True),
        ToolResult("c4", "read_file", "Todo list: 1 task, 1 pending\n[ ] 9: not mine"),
        Assistant((Text("Todo list: 1 task, 1 pending\n[ ] 9: said, not done"),)),
    )
    after = TodoList()
    after.restore(history)
    assert after.items == before.items
    after.restore(history[:1])
    assert after.items == ()


async def test_list_put_back_after_a_compaction_is_found():
    before = TodoList()
    await call(before, todos=[{"id": "1", "content": "one", "status": "in_progress"}])
    summary = User.say(f"Summary of what happened.\n\n{before.text()}\n\nGo on.")
    after = TodoList()
    after.restore([summary, User.say("and now?")])
    assert after.items == before.items


@given(
    st.lists(
        st.builds(
            lambda name, content, status: {"id": name, "content": content, "status": status},
            st.text(min_size=1).filter(str.strip),
            st.text(min_size=1).filter(str.strip),
            st.sampled_from(list(MARKS)),
        ),
        max_size=5,
    )
)
def test_any_list_can_be_restored_from_what_was_shown(items):
    before, after = TodoList(), TodoList()
    before.write(items)
    after.restore([ToolResult("c", "todo", before.text())])
    assert after.items == before.items
