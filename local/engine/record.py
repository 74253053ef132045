"""What a run writes down: events as they happen, status.json and pods.json with pauses between, the last ones always.

A disk that is full, or an observer that fails, does not end a job that runs.
"""

import time
from collections.abc import Callable

from trainyard.local.engine import clock
from trainyard.local.engine.loop import Loop, Timer
from trainyard.local.engine.observer import Observer, Snapshot
from trainyard.local.store import job_folder as files
from trainyard.local.store.job_folder import JobFolder


class Record:
    """The writing side of one run."""

    def __init__(
        self, folder: JobFolder, loop: Loop, observer: Observer | None, *, interval_seconds: float, job: str
    ) -> None:
        self._folder = folder
        self._loop = loop
        self._observer = observer
        self._interval_seconds = interval_seconds
        self._job = job
        self._stale = True
        self._written: Snapshot | None = None
        self._not_before = float("-inf")
        self._timer: Timer | None = None

    def event(self, kind: str, reason: str, about: str, message: str) -> None:
        """Append an event, and tell the observer."""
        event = {
            "time": clock.fine_stamp(clock.now()),
            "type": kind,
            "reason": reason,
            "object": about,
            "message": message,
        }
        try:
            self._folder.append_event(event)
        except OSError:
            pass
        self._tell(lambda observer: observer.event(event))

    def touch(self) -> None:
        """Say that what was written is out of date."""
        self._stale = True

    def write(self, look: Callable[[], Snapshot], *, final: bool = False, strict: bool = False) -> None:
        """Write what a look shows, if it is out of date and the pause is over; `final` and `strict` do not wait.

        Raises OSError only when `strict`.
        """
        if not (self._stale or final):
            return
        wait = self._not_before - time.monotonic()
        if wait > 0 and not final and not strict:
            if self._timer is None:
                self._timer = self._loop.call_later(wait, self._pause_is_over)
            return
        if final:
            self._folder.release()
        self._stale = False
        snapshot, before = look(), self._written
        if snapshot == before:
            return
        try:
            if before is None or before.pods != snapshot.pods:
                self._folder.write_json(files.PODS, snapshot.pods)
            self._folder.write_json(files.STATUS, snapshot.train_job)
            if strict:
                self._folder.reserve()
        except OSError:
            if strict:
                raise
            self._stale = True
        else:
            self._written = snapshot
        self._not_before = time.monotonic() + self._interval_seconds
        self._tell(lambda observer: observer.snapshot(snapshot))

    def _pause_is_over(self) -> None:
        self._timer = None  # The turn of the loop that ends now writes.

    def _tell(self, say: Callable[[Observer], None]) -> None:
        """Tell the observer; one that fails (its terminal is gone) is not told again."""
        observer, self._observer = self._observer, None
        if observer is None:
            return
        try:
            say(observer)
        except Exception as error:
            text = f"what watched this job failed, the job goes on: {type(error).__name__}: {error}"
            self.event("Warning", "ObserverFailed", f"TrainJob/{self._job}", text)
        else:
            self._observer = observer
