"""The wiring of Hermes: from settings to a running agent, for every surface.

`App` holds what one process shares; `App.agent(SessionRequest(...))` builds an agent. Slash
commands and `@` references are here too: they stand between the user's text and the agent.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.app.app import App, BackgroundTasks, shorten_goal
    from hermes.app.build import AgentSession, build_agent
    from hermes.app.command_handlers import Commands, FoundCommand, take_back
    from hermes.app.commands import (
        COMMAND_REGISTRY, CommandCall, CommandContext, CommandDef, CommandHandler, Surface,
        commands_in, exact_command, resolve_command,
    )
    from hermes.app.extensions import (
        Extensions, ReservedNames, SlashCommand, authorizers, make_hub, message_injector,
    )
    from hermes.app.git import UserGit
    from hermes.app.log_files import (
        NO_SESSION, LogFileEntry, as_json, as_text, component_of, record_crash, rotated,
        start_logging, stop_logging,
    )
    from hermes.app.model_choice import (
        ListedModel, ModelFilter, ModelLister, ProviderModels, fallback_choices, main_choice,
        named_model, parse_choice, save_choice,
    )
    from hermes.app.outgoing_files import remove_old_copies
    from hermes.app.prompt_commands import PromptCommand, find_prompt_commands
    from hermes.app.prompting import PromptPreview, preview_prompt, request_size
    from hermes.app.providers import (
        AuxiliaryModels, Providers, start_of_today, stored_secrets, trial_budget, user_home,
        user_zone,
    )
    from hermes.app.reference_expansion import attach_texts, expand_references, typed_text
    from hermes.app.references import (
        ReferenceContext, Suggestion, complete_reference, fragment_at_end, one_line, page_fetch,
    )
    from hermes.app.sessions import (
        QUICK_BACKUP_BYTES, Services, SessionRequest, back_up_when_due, latest_session,
        opened_store, store_exists,
    )
    from hermes.app.skills import (
        SkillCatalog, external_folders, external_warnings, skill_roots, visibility_context,
    )
    from hermes.app.tools import (
        SessionTools, ToolRow, ToolSelection, allow_rules, build_approvals, build_toolbox,
        find_toolsets, project_root, set_tool_enabled, tool_rows, unbound_services,
        undescribed_toolsets,
    )
    from hermes.app.workspace import SessionWorkspace, find_terminal, make_workspace
    # fmt: on
    # isort: on

__all__ = [
    "COMMAND_REGISTRY", "NO_SESSION", "QUICK_BACKUP_BYTES", "AgentSession", "App",
    "AuxiliaryModels", "BackgroundTasks", "CommandCall", "CommandContext", "CommandDef",
    "CommandHandler", "Commands", "Extensions", "FoundCommand", "ListedModel",
    "LogFileEntry", "ModelFilter", "ModelLister", "PromptCommand", "PromptPreview",
    "ProviderModels", "Providers",
    "ReferenceContext", "ReservedNames", "Services", "SessionRequest", "SessionTools",
    "SessionWorkspace", "SkillCatalog", "SlashCommand", "Suggestion", "Surface", "ToolRow",
    "ToolSelection", "UserGit", "allow_rules", "as_json", "as_text", "attach_texts", "authorizers",
    "back_up_when_due", "build_agent", "build_approvals", "build_toolbox", "commands_in",
    "complete_reference",
    "component_of", "exact_command", "expand_references", "external_folders", "external_warnings",
    "fallback_choices", "find_prompt_commands",
    "find_terminal", "find_toolsets", "fragment_at_end",
    "latest_session", "main_choice", "make_hub", "make_workspace", "message_injector",
    "named_model", "one_line", "opened_store", "page_fetch", "parse_choice", "preview_prompt",
    "project_root", "record_crash", "remove_old_copies", "request_size", "resolve_command",
    "rotated", "save_choice", "set_tool_enabled", "shorten_goal", "skill_roots", "start_logging",
    "start_of_today", "stop_logging", "store_exists", "stored_secrets", "take_back", "tool_rows",
    "trial_budget", "typed_text", "unbound_services", "undescribed_toolsets", "user_home",
    "user_zone", "visibility_context",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
