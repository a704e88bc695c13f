"""Older forms of settings, and what they became.

`modernise` rewrites any nested mapping in place: plain data when settings are read, the
comment-keeping form of the file when `hermes config migrate` rewrites it.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

from hermes.config.keys import Parts, split_key

MOVED = {
    "max_turns": "agent.max_turns",
    "personalities": "agent.personalities",
    "compression.summary_provider": "auxiliary.compression.provider",
    "compression.summary_model": "auxiliary.compression.model",
    "compression.summary_base_url": "auxiliary.compression.base_url",
    "compression.summary_api_key": "auxiliary.compression.api_key",
    "bedrock.guardrail.id": "bedrock.guardrail.guardrail_identifier",
    "bedrock.guardrail.version": "bedrock.guardrail.guardrail_version",
}
"""Keys that have another name now. Where both are set the new one counts."""

RENAMED_VALUES = {"approvals.mode": {"ask": "manual", "yolo": "off"}}
"""Values that have another name now, by key."""


class Move(NamedTuple):
    """One thing `modernise` did."""

    old: Parts
    new: Parts
    text: str


def modernise(data: MutableMapping[str, Any]) -> list[Move]:
    """Rewrite older forms in `data`; returns what was done."""
    moves = [*_model_name(data), *_fallback_model(data)]
    for old, new in MOVED.items():
        moves += _move(data, split_key(old), split_key(new))
    for key, names in RENAMED_VALUES.items():
        moves += _rename(data, split_key(key), names)
    return moves


def _model_name(data: MutableMapping[str, Any]) -> list[Move]:
    """`model: name` became `model: {default: name}`."""
    if not isinstance(data.get("model"), str):
        return []
    data["model"] = {"default": data["model"]}
    return [Move(("model",), ("model", "default"), "model: NAME is now model.default")]


def _fallback_model(data: MutableMapping[str, Any]) -> list[Move]:
    """`fallback_model` (one entry or a list) became the end of `fallback_providers`."""
    old = data.get("fallback_model")
    chain = data.get("fallback_providers") or []
    if not isinstance(old, MutableMapping | list) or not isinstance(chain, list):
        if "fallback_model" in data and not old:
            del data["fallback_model"]
        return []
    entries = old if isinstance(old, list) else [old]
    complete = [entry for entry in entries if _is_complete(entry)]
    del data["fallback_model"]
    if complete:
        data["fallback_providers"] = [*chain, *complete]
    where = ("fallback_providers",)
    return [Move(("fallback_model",), where, "fallback_model is now fallback_providers")]


def _is_complete(entry: Any) -> bool:
    """Both provider and model must be named, else the entry is off."""
    return isinstance(entry, Mapping) and bool(entry.get("provider") and entry.get("model"))


def _move(data: MutableMapping[str, Any], old: Parts, new: Parts) -> list[Move]:
    holder = _holder(data, old)
    if holder is None:
        return []
    value = holder.pop(old[-1])
    _drop_empty(data, old[:-1])
    if value is None or value == "":
        return []
    target = data
    for part in new[:-1]:
        if not isinstance(target.get(part), MutableMapping):
            target[part] = {}
        target = target[part]
    if target.get(new[-1]) is None:
        target[new[-1]] = value
    return [Move(old, new, f"{'.'.join(old)} is now {'.'.join(new)}")]


def _rename(data: MutableMapping[str, Any], key: Parts, names: dict[str, str]) -> list[Move]:
    holder = _holder(data, key)
    new = names.get(str(holder[key[-1]])) if holder else None
    if holder is None or new is None:
        return []
    old, holder[key[-1]] = holder[key[-1]], new
    return [Move(key, key, f"{'.'.join(key)}: {old} is now {new}")]


def _holder(data: MutableMapping[str, Any], key: Parts) -> MutableMapping[str, Any] | None:
    """The block that holds `key`, or None when it is not there."""
    holder: Any = data
    for part in key[:-1]:
        holder = holder.get(part)
        if not isinstance(holder, MutableMapping):
            return None
    return holder if key[-1] in holder else None


def _drop_empty(data: MutableMapping[str, Any], block: Parts) -> None:
    if block:
        holder = _holder(data, block)
        if holder is not None and not holder[block[-1]]:
            del holder[block[-1]]
