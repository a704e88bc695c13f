"""Plugins: find and load them, give them `ctx`, run their hooks and the user's shell hooks.

Code of a plugin is third-party code: every call of it goes through `plugins.isolation`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.plugins.context import PluginContext, PluginHost
    from hermes.plugins.discovery import find_plugins
    from hermes.plugins.hooks import HookRunner
    from hermes.plugins.installer import PluginInstaller
    from hermes.plugins.isolation import PluginFailed, ProblemReporter
    from hermes.plugins.loader import import_folder, load_plugins
    from hermes.plugins.manifest import PluginManifest, read_manifest
    from hermes.plugins.shell_hooks import ShellHooks

_MODULES = {
    "HookRunner": "hooks",
    "PluginContext": "context",
    "PluginFailed": "isolation",
    "PluginHost": "context",
    "PluginInstaller": "installer",
    "PluginManifest": "manifest",
    "ProblemReporter": "isolation",
    "ShellHooks": "shell_hooks",
    "find_plugins": "discovery",
    "import_folder": "loader",
    "load_plugins": "loader",
    "read_manifest": "manifest",
}

__all__ = [
    "HookRunner",
    "PluginContext",
    "PluginFailed",
    "PluginHost",
    "PluginInstaller",
    "PluginManifest",
    "ProblemReporter",
    "ShellHooks",
    "find_plugins",
    "import_folder",
    "load_plugins",
    "read_manifest",
]


def __getattr__(name: str) -> Any:
    # Lazy: a program without plugins must not load the loader, and help texts need only manifests.
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
