"""Facts of a session in the words both written forms use."""

from datetime import UTC, datetime

from hermes.app.transcripts.outline import Transcript


def moment(timestamp: float) -> str:
    """`2026-01-31 14:05` where the reader is."""
    return local(timestamp).strftime("%Y-%m-%d %H:%M")


def local(timestamp: float) -> datetime:
    """The time of a stored timestamp; the beginning of the count for one that cannot be one."""
    try:
        return datetime.fromtimestamp(timestamp, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).astimezone()


def cost(dollars: float) -> str:
    """Cents for what costs dollars or nothing, more digits for what is between."""
    return f"${dollars:.4f}" if 0 < dollars < 1 else f"${dollars:,.2f}"


def facts(transcript: Transcript) -> list[tuple[str, str]]:
    """What stands at the head of a session, as (label, value), without what is not known."""
    ended = ""
    if transcript.ended_at is not None:
        reason = f" ({transcript.end_reason})" if transcript.end_reason else ""
        ended = moment(transcript.ended_at) + reason
    dollars = transcript.cost_usd
    known = [
        ("Session", transcript.id),
        ("Source", transcript.source),
        ("Model", transcript.model),
        ("Started", moment(transcript.started_at)),
        ("Ended", ended),
        ("Messages", f"{transcript.message_count:,}"),
        ("Tokens", f"{transcript.tokens:,}" if transcript.tokens else ""),
        ("Cost", "" if dollars is None else cost(dollars)),
    ]
    return [(label, value) for label, value in known if value]
