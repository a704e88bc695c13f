"""The skill hub: search, fetch, scan, install, update, audit and share skills of other people.

`Hub` is the entry point. Sources implement `SkillSource`; `HubStore` holds what is installed.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.skills.hub.contents import HubError, InstallRefused
    from hermes.skills.hub.hub import (
        Hub, HubOptions, InstallCandidate, SkillInspection, UpdateState, UpdateStatus,
        audit_installed, check_update, check_updates, diff_files, restore_skill, summarize_changes,
    )
    from hermes.skills.hub.registry import SOURCE_NAMES, check_source_name
    from hermes.skills.hub.repositories import SET_TOKEN
    from hermes.skills.hub.sharing import (
        PublishPlan, export_bundle, import_bundle, plan_publication, prepare_skill, publish,
    )
    from hermes.skills.hub.sources import HubAddresses, SkillOffer, SkillSearchResult
    from hermes.skills.hub.store import AuditEvent, HubStore, LockFile, RefusedSkill, utc_now
    # fmt: on
    # isort: on

__all__ = [
    "SET_TOKEN", "SOURCE_NAMES", "AuditEvent", "Hub", "HubAddresses", "HubError", "HubOptions",
    "HubStore", "InstallCandidate", "InstallRefused", "LockFile", "PublishPlan", "RefusedSkill",
    "SkillInspection", "SkillOffer", "SkillSearchResult", "UpdateState", "UpdateStatus",
    "audit_installed", "check_source_name", "check_update", "check_updates", "diff_files",
    "export_bundle", "import_bundle", "plan_publication", "prepare_skill", "publish",
    "restore_skill", "summarize_changes", "utc_now",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
