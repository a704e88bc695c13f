"""Plugins: find and load them, give them `ctx`, run their hooks and the user's shell hooks.

Code of a plugin is third-party code: every call of it goes through `plugins.isolation`.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.plugins.context import PluginContext, PluginHost
    from hermes.plugins.discovery import find_plugins
    from hermes.plugins.hooks import HookRunner
    from hermes.plugins.installer import PluginInstaller
    from hermes.plugins.isolation import (
        IsolationLimits,
        PluginFailed,
        ProblemReporter,
        describe_error,
    )
    from hermes.plugins.loader import import_folder, load_plugins
    from hermes.plugins.manifest import PluginManifest, read_manifest
    from hermes.plugins.shell_hooks import ShellHooks

__all__ = [
    "HookRunner", "IsolationLimits", "PluginContext", "PluginFailed", "PluginHost",
    "PluginInstaller", "PluginManifest", "ProblemReporter", "ShellHooks", "describe_error",
    "find_plugins", "import_folder", "load_plugins", "read_manifest",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
