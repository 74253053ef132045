"""How long the local executor waits where Kubernetes waits: shorter, because a person sits in front of it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Delays in seconds. The growth is Kubernetes' (doubling), the bounds are ours."""

    first_backoff_seconds: float = 1.0
    """Before a failed pod is replaced, or a container restarted, for the first time. Kubernetes: 10."""
    longest_backoff_seconds: float = 60.0
    """Where doubling ends. Kubernetes: 300 for a container, 600 for a Job's pods."""
    backoff_reset_seconds: float = 600.0
    """A container that ran this long starts over with the first delay, as in Kubernetes."""
    probe_period_seconds: float = 0.5
    """Longest time between two tries of a probe that has not succeeded yet, whatever its periodSeconds."""
    status_interval_seconds: float = 0.25
    """Shortest time between two writes of the status files; the last one is always written."""

    def backoff(self, failures: int) -> float:
        """Give the delay after so many failures in a row (1 gives the first)."""
        doublings = min(max(failures, 1) - 1, 30)
        return float(min(self.longest_backoff_seconds, self.first_backoff_seconds * 2**doublings))
