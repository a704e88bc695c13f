"""Maintenance of an installation: doctor, backups, updates, logs, reports and transcripts.

The commands of `hermes.cli` show what these modules find and do. Names are loaded on first use:
most commands need one of them, and loading all would slow each of them down.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.ops.auth import CredentialRow, CredentialService
    from hermes.ops.backup import Archive, contents, copy_home, open_archive
    from hermes.ops.commands import OPS_HANDLERS
    from hermes.ops.debug_report import bundle_path, summary, write
    from hermes.ops.doctor.check import DoctorFinding, Level, Outcome, TerminalInfo, best_settings
    from hermes.ops.insights import Insights, insights_of, money
    from hermes.ops.logs import LogFilter, files_of, follow, last_entries
    from hermes.ops.model_probe import ProbeFinding, probe
    from hermes.ops.output_files import check_output, replaced
    from hermes.ops.profiles import (
        Alias, alias_folder, aliases, import_profile, is_on_path, make_alias, remove_aliases,
        rename_aliases,
    )
    from hermes.ops.restore import (
        KEPT_SNAPSHOTS, Snapshots, back_up_store, check_fits, conflicts, finish_restore,
        has_unfinished_restore, repair_store, restore_archive, restore_store,
    )
    from hermes.ops.status import (
        Resolution, Resolved, SetupRecord, Status, add_fallback, clear_fallbacks, main_resolution,
        remove_fallback, reset_settings, status_of, whole_resolution,
    )
    from hermes.ops.transcript_import import (
        Entry, TrajectoryLine, as_openai, as_sharegpt, import_file, read_lines, superseded_lines,
    )
    from hermes.ops.transcripts import ExportFormat, cost, export_sessions, format_of, local, moment
    from hermes.ops.update import (
        AvailableUpdate, RemovablePart, UpdateFailed, Updater, removable_parts, remove_all,
    )
    from hermes.ops.worktrees import open_worktree
    # fmt: on
    # isort: on

__all__ = [
    "KEPT_SNAPSHOTS", "OPS_HANDLERS", "Alias", "Archive", "AvailableUpdate", "CredentialRow",
    "CredentialService", "DoctorFinding", "Entry", "ExportFormat", "Insights", "Level", "LogFilter",
    "Outcome", "ProbeFinding", "RemovablePart", "Resolution", "Resolved", "SetupRecord",
    "Snapshots", "Status", "TerminalInfo", "TrajectoryLine", "UpdateFailed", "Updater",
    "add_fallback", "alias_folder", "aliases", "as_openai", "as_sharegpt", "back_up_store",
    "best_settings", "bundle_path", "check_fits", "check_output", "clear_fallbacks", "conflicts",
    "contents", "copy_home", "cost", "export_sessions", "files_of", "finish_restore", "follow",
    "format_of", "has_unfinished_restore", "import_file", "import_profile", "insights_of",
    "is_on_path", "last_entries", "local", "main_resolution", "make_alias", "moment", "money",
    "open_archive", "open_worktree", "probe", "read_lines", "removable_parts", "remove_aliases",
    "remove_all", "remove_fallback", "rename_aliases", "repair_store", "replaced", "reset_settings",
    "restore_archive", "restore_store", "status_of", "summary",
    "superseded_lines", "whole_resolution", "write",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
