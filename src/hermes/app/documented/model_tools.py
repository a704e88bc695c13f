"""`model_tools`: the schemas of tools, and calls of them, for programs with a loop of their own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hermes.app.documented.process import tell
from hermes.app.documented.workshop import workshop
from hermes.tools import coerce_arguments, expand

Dict = dict[str, Any]


def get_tool_definitions(
    enabled_toolsets: Sequence[str] | None = None,
    disabled_toolsets: Sequence[str] | None = None,
    quiet_mode: bool = False,
) -> list[Dict]:
    """The tools that can be used, in the form of OpenAI's API: those of the enabled toolsets, or
    all, without those of the disabled ones. Unless quiet, standard error tells which they are, and
    what is missing. Raises `UsageError` for a toolset that does not exist."""
    shop = workshop()
    wanted = [*(enabled_toolsets or ("all",)), *(f"-{name}" for name in disabled_toolsets or ())]
    made = shop.make(expand(wanted, shop.toolsets.known))
    given = {tool.name: tool.spec for tool in (*made.tools, *made.rare)}
    given.pop("tool_search", None)  # it looks for what is in the list already
    if not quiet_mode:
        tell(f"tools: {', '.join(sorted(given)) or 'none'}")
        for name, reason in sorted(made.unavailable.items()):
            tell(f"  without {name}: {reason}")
    return [
        {"type": "function", "function": msgspec.to_builtins(given[name])} for name in sorted(given)
    ]


def handle_function_call(
    name: str,
    args: Mapping[str, Any] | None = None,
    task_id: str | None = None,
    user_task: str | None = None,  # noqa: ARG001 - documented; no tool of ours needs it
) -> str:
    """The result of a call as a JSON string; a failure is `{"error": …}`. Calls with one `task_id`
    share a working folder, exported variables and background processes. Hooks of plugins hear of
    it, and what needs consent is refused unless the settings allow it: nobody is asked."""
    return workshop().call(name, dict(args or {}), task_id or "", hooked=True)


def coerce_tool_args(tool_name: str, args: Mapping[str, Any]) -> Dict:
    """`args` with the types that the tool's schema wants ("42" as 42), where that is clear."""
    return coerce_arguments(dict(args), workshop().find(tool_name).spec.parameters)


class _ToolsetOfTool(Mapping[str, str]):
    """Always up to date, also with what plugins register later."""

    def _now(self) -> dict[str, str]:
        return {entry.name: entry.toolset for entry in workshop().toolsets.registry.entries}

    def __getitem__(self, name: str) -> str:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


TOOL_TO_TOOLSET_MAP: Mapping[str, str] = _ToolsetOfTool()
