"""What a memory provider needs: the interface, and a base for providers over a service.

`MemoryProvider` is the documented interface. `HttpServiceProvider` implements it for a service with
an HTTP interface, `ServiceProvider` for any other; both read their options from the home, redact
what leaves this machine, and pause a service that fails.
"""

from typing import TYPE_CHECKING

from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.memory import (
        Dict, Dicts, Inspectable, MemoryManager, MemoryProvider, find_provider, safe_name,
        strip_fences,
    )
    from hermes.sdk.memory.service import (
        MAX_LISTED, MIRRORED_TARGETS, OWNER, SLOW_SECONDS, WRITE_SECONDS, HttpServiceProvider,
        ServiceCircuitBreaker, ServiceClient, ServiceError, ServiceInfo, ServiceNotFound,
        ServiceOptions, ServicePaused, ServiceProvider, ServiceScope, ServiceTool, bullet_list,
        change_options, not_initialized, objects_in, open_client, options_file, parse_address,
        quote_segment, read_notes, read_options, read_variable, redact_outgoing, redact_query,
        safe_id, search_tool, service_scope, store_tool, to_entry,
    )
    # fmt: on
    # isort: on

__all__ = [
    "MAX_LISTED", "MIRRORED_TARGETS", "OWNER", "SLOW_SECONDS", "WRITE_SECONDS", "Dict", "Dicts",
    "HttpServiceProvider", "Inspectable", "MemoryManager", "MemoryProvider",
    "ServiceCircuitBreaker", "ServiceClient", "ServiceError", "ServiceInfo", "ServiceNotFound",
    "ServiceOptions", "ServicePaused", "ServiceProvider", "ServiceScope", "ServiceTool",
    "bullet_list", "change_options", "find_provider", "not_initialized", "objects_in",
    "open_client", "options_file", "parse_address", "quote_segment", "read_notes", "read_options",
    "read_variable", "redact_outgoing", "redact_query", "safe_id", "safe_name", "search_tool",
    "service_scope", "store_tool", "strip_fences", "to_entry",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)
