"""Wall-clock stamps, as Kubernetes writes them (UTC, seconds) and a finer form for our own files."""

from datetime import UTC, datetime


def now() -> datetime:
    """Read the wall clock in UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Format as Kubernetes does: `2026-11-21T10:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fine_stamp(moment: datetime) -> str:
    """Format with milliseconds: `2026-11-21T10:00:00.123Z`; readers of plain stamps accept it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_stamp(text: str) -> datetime:
    """Read either form back."""
    return datetime.fromisoformat(text)
