"""The skill hub: search, fetch, scan, install, update, audit and share skills of other people.

`Hub` is the entry point. Sources implement `SkillSource`; `HubStore` holds what is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.skills.hub.contents import HubError, InstallRefused
    from hermes.skills.hub.github import SET_TOKEN
    from hermes.skills.hub.hub import (
        Hub,
        HubOptions,
        InstallCandidate,
        SkillInspection,
        UpdateState,
        UpdateStatus,
        audit_installed,
        check_update,
        check_updates,
        diff_files,
        restore_skill,
        summarize_changes,
    )
    from hermes.skills.hub.registry import SOURCE_NAMES, check_source_name
    from hermes.skills.hub.sharing import (
        PublishPlan,
        export_bundle,
        import_bundle,
        plan_publication,
        prepare_skill,
        publish,
    )
    from hermes.skills.hub.sources import HubAddresses, SearchResult, SkillOffer
    from hermes.skills.hub.store import AuditEvent, HubStore, LockFile, RefusedSkill, utc_now

__all__ = [
    "SET_TOKEN",
    "SOURCE_NAMES",
    "AuditEvent",
    "Hub",
    "HubAddresses",
    "HubError",
    "HubOptions",
    "HubStore",
    "InstallCandidate",
    "InstallRefused",
    "LockFile",
    "PublishPlan",
    "RefusedSkill",
    "SearchResult",
    "SkillInspection",
    "SkillOffer",
    "UpdateState",
    "UpdateStatus",
    "audit_installed",
    "check_source_name",
    "check_update",
    "check_updates",
    "diff_files",
    "export_bundle",
    "import_bundle",
    "plan_publication",
    "prepare_skill",
    "publish",
    "restore_skill",
    "summarize_changes",
    "utc_now",
]  # fmt: skip

_MODULES = {
    "contents": (
        "HubError", "InstallRefused",
    ),
    "github": (
        "SET_TOKEN",
    ),
    "hub": (
        "Hub", "HubOptions", "InstallCandidate", "SkillInspection", "UpdateState",
        "UpdateStatus", "audit_installed", "check_update", "check_updates", "diff_files",
        "restore_skill", "summarize_changes",
    ),
    "registry": (
        "SOURCE_NAMES", "check_source_name",
    ),
    "sharing": (
        "PublishPlan", "export_bundle", "import_bundle", "plan_publication",
        "prepare_skill", "publish",
    ),
    "sources": (
        "HubAddresses", "SearchResult", "SkillOffer",
    ),
    "store": (
        "AuditEvent", "HubStore", "LockFile", "RefusedSkill", "utc_now",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Lazy, so that a process loads only the modules it uses.
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
