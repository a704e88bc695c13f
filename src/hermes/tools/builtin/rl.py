"""The tools `rl_*`: list environments, configure, start, watch and stop training runs."""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from hermes.core.errors import ToolError, UsageError
from hermes.core.ports import Trainer
from hermes.core.tool import Concern, Effect, ToolContext
from hermes.tools.registry import ToolDeps, require, tool


def _unavailable(deps: ToolDeps) -> str:
    if not deps.settings.rl.trainer_command.strip():
        return "no trainer is configured (rl.trainer_command)"
    return "" if deps.services.trainer else "this session cannot train models"


def _trainer(deps: ToolDeps) -> Trainer:
    return require(deps.services.trainer)


async def _result(work: Awaitable[Any]) -> str:
    try:
        return msgspec.json.encode(await work).decode()
    except UsageError as error:
        raise ToolError(str(error), hint=error.hint) from error


async def _examine_start(deps: ToolDeps, _arguments: dict[str, Any]) -> Concern | None:
    try:
        subject = await _trainer(deps).describe_start()
    except UsageError:
        return None  # nothing can be started: the call reports why
    reason = "a training run uses this machine or a paid service until it ends or is stopped"
    return Concern("training run", subject, reason, effect=Effect.SPEND)


async def _examine_stop(_deps: ToolDeps, arguments: dict[str, Any]) -> Concern:
    reason = "what the run has not saved is lost"
    subject = f"stop {arguments.get('run_id')}"
    return Concern("training stop", subject, reason, effect=Effect.EXECUTE, destructive=True)


async def _examine_test(_deps: ToolDeps, arguments: dict[str, Any]) -> Concern:
    rollouts = f"{arguments.get('num_steps', 3)} x {arguments.get('group_size', 16)} rollouts"
    reason = "the code of the environment runs, and the commands of its agents are not asked about"
    return Concern("training test", rollouts, reason, effect=Effect.EXECUTE)


# Selecting and editing only change a draft, which has no effect until a run is started.
_rl_tool = partial(
    tool,
    toolset="rl",
    unavailable=_unavailable,
    requires_env=("TINKER_API_KEY", "WANDB_API_KEY"),  # the settings say which ones a trainer gets
    emoji="🏋",
)


@_rl_tool(effect=Effect.READ)
async def rl_list_environments(deps: ToolDeps) -> str:
    """List the environments and sets of tasks that a model can be trained on."""
    return await _result(_trainer(deps).environments())


@_rl_tool(effect=Effect.READ, serial=True)
async def rl_select_environment(deps: ToolDeps, name: str) -> str:
    """Choose the environment of the next run; its configuration starts anew."""
    return await _result(_trainer(deps).select(name))


@_rl_tool(effect=Effect.READ)
async def rl_get_current_config(deps: ToolDeps) -> str:
    """Show the configuration of the selected environment. Locked fields cannot be changed."""
    return await _result(_trainer(deps).config())


@_rl_tool(effect=Effect.READ, serial=True)
async def rl_edit_config(deps: ToolDeps, field: str, value: Any) -> str:
    """Change a field of the configuration for the next run.

    value: number, text, boolean, list or null
    """
    return await _result(_trainer(deps).edit(field, value))


@_rl_tool(effect=Effect.SPEND, examine=_examine_start, serial=True)
async def rl_start_training(deps: ToolDeps) -> str:
    """Start a training run in the background. Use rl_test_inference first."""
    return await _result(_trainer(deps).start())


@_rl_tool(effect=Effect.READ, repeatable=True)
async def rl_check_status(deps: ToolDeps, run_id: str) -> str:
    """Show state, metrics and log of a run. At most every 30 minutes while it runs."""
    return await _result(_trainer(deps).status(run_id))


@_rl_tool(effect=Effect.EXECUTE, examine=_examine_stop, serial=True)
async def rl_stop_training(deps: ToolDeps, call: ToolContext, run_id: str) -> str:
    """Stop a training run."""
    with call.cancel.scope():
        return await _result(_trainer(deps).stop(run_id))


@_rl_tool(effect=Effect.READ)
async def rl_get_results(deps: ToolDeps, run_id: str) -> str:
    """Show the metrics of a run that has ended, and the folder with its files."""
    return await _result(_trainer(deps).results(run_id))


@_rl_tool(effect=Effect.READ)
async def rl_list_runs(deps: ToolDeps) -> str:
    """List all training runs, the newest first."""
    return await _result(_trainer(deps).runs())


@_rl_tool(effect=Effect.EXECUTE, examine=_examine_test)
async def rl_test_inference(
    deps: ToolDeps,
    call: ToolContext,
    num_steps: Annotated[int, msgspec.Meta(ge=1)] = 3,
    group_size: Annotated[int, msgspec.Meta(ge=1)] = 16,
    models: list[str] | None = None,
) -> str:
    """Run a few rollouts without training, to see that environment and model work.

    num_steps: different tasks
    group_size: rollouts of each task
    models: model names; by default the one that is trained
    """
    names: Sequence[str] = models or ()
    with call.cancel.scope():
        return await _result(_trainer(deps).test_inference(num_steps, group_size, names))
