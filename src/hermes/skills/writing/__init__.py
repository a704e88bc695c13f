"""Change skills: drafts of the agent, proposals for the user, changed copies, retirement.

`SkillWriter` is the entry point. It checks a `SkillDraft`, applies it atomically and records it.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    from hermes.skills.writing.draft import (
        MARK_FILE,
        ChangeRefused,
        DraftAction,
        SkillDraft,
        SkillLimits,
        content_hash,
        list_files,
        parse_mark,
        read_overlay,
    )
    from hermes.skills.writing.writer import (
        UNUSED_DAYS,
        ChangeOutcome,
        SkillProposal,
        SkillWriter,
        WritingOptions,
        scan_reasons,
        stale_skills,
    )

__all__ = [
    "MARK_FILE", "UNUSED_DAYS", "ChangeOutcome", "ChangeRefused", "DraftAction", "SkillDraft",
    "SkillLimits", "SkillProposal", "SkillWriter", "WritingOptions", "content_hash", "list_files",
    "parse_mark", "read_overlay", "scan_reasons", "stale_skills",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
