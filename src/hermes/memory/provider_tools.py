"""The tools of a memory provider, as the agent runs tools."""

from typing import Any

from hermes.core.model import ToolSpec
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.memory.manager import MemoryManager
from hermes.memory.provider import Dict
from hermes.util.threads import in_thread

TOOLSET = "memory"


def provider_tools(manager: MemoryManager) -> tuple[Tool, ...]:
    """One for each schema the provider gave when it was initialised. The user chose the provider,
    so nobody is asked before it is used."""
    return tuple(_tool(manager, schema) for schema in manager.get_all_tool_schemas())


def _tool(manager: MemoryManager, schema: Dict) -> Tool:
    name = schema["name"]

    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        work = in_thread(manager.call_tool, name, arguments, session_id=call.session_id)
        return await call.cancel.guard(work)

    spec = ToolSpec(name, schema["description"], schema["parameters"])
    return Tool(spec=spec, handler=handler, effect=Effect.NETWORK, serial=True, toolset=TOOLSET)
