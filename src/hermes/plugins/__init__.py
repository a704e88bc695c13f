"""Plugins: find and load them, give them `ctx`, run their hooks and the user's shell hooks.

Code of a plugin is third-party code: every call of it goes through `plugins.isolation`.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.plugins.context import (
        Act, CommandHandler, NameRegistry, PluginContext, PluginHost, PluginServices,
        RegistrationKind, SetUp,
    )
    from hermes.plugins.discovery import (
        Plugin, PluginInfo, PluginKind, PluginManifest, PluginOrigin, PluginPlaces, PluginSelection,
        PluginState, RequiredVariable, bundled_infos, cache_commands, cached_commands,
        checkout_folders, choose_provider, default_places, find_plugins, forget_plugin, is_plugin,
        plugin_folders, plugin_info, read_manifest, read_manifest_data, set_enabled,
    )
    from hermes.plugins.hooks import HookRunner, parse_event
    from hermes.plugins.installer import (
        PluginFetcher, PluginInstaller, create_plugin, parse_source,
    )
    from hermes.plugins.isolation import (
        IsolatedThread, IsolationLimits, PluginFailed, ProblemReporter, Tell, call_accepted,
        describe_error, run_foreign_code,
    )
    from hermes.plugins.loader import (
        PluginVariables, StartHistory, import_folder, load_extension, load_plugins,
    )
    from hermes.plugins.shell_hooks import (
        HookApprovals, HookOptions, HookRun, HookSpec, ShellHooks, find_program, hook_files,
        parse_answer, parse_hooks,
    )
    # fmt: on
    # isort: on

__all__ = [
    "Act", "CommandHandler", "HookApprovals", "HookOptions", "HookRun", "HookRunner", "HookSpec",
    "IsolatedThread", "IsolationLimits", "NameRegistry", "Plugin", "PluginContext", "PluginFailed",
    "PluginFetcher", "PluginHost", "PluginInfo", "PluginInstaller", "PluginKind", "PluginManifest",
    "PluginOrigin", "PluginPlaces", "PluginSelection", "PluginServices", "PluginState",
    "PluginVariables", "ProblemReporter", "RegistrationKind", "RequiredVariable", "SetUp",
    "ShellHooks", "StartHistory", "Tell", "bundled_infos", "cache_commands", "cached_commands",
    "call_accepted", "checkout_folders", "choose_provider", "create_plugin", "default_places",
    "describe_error", "find_plugins",
    "find_program", "forget_plugin", "hook_files", "import_folder", "is_plugin", "load_extension",
    "load_plugins", "parse_answer", "parse_event", "parse_hooks", "parse_source", "plugin_folders",
    "plugin_info", "read_manifest", "read_manifest_data", "run_foreign_code", "set_enabled",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
