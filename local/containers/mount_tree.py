"""Builds a container's file tree in a private mount namespace: the host's, with the mounts at their very paths.

The host may lack a mount's target and must not get it. So the root is always a new tmpfs with each entry of the host's
root bound into it, and any deeper folder that lacks an entry is covered in the same way:

    /                    tmpfs
    ├── usr, home, ...   the host's, bound with everything mounted below them
    ├── workspace        a mount that the host does not have
    └── dev              tmpfs over the host's folder, because it has no `termination-log`
        ├── null, ...    the host's entries, bound
        └── termination-log

What a container creates beside the bound entries of a covered folder is gone with it, as in any container. Below a
writable mount, a missing target of another mount is created in that mount's source, as container engines do.
Standard library only: the keeper loads it. Must run alone in a fresh mount namespace; raises StartError.
"""

from __future__ import annotations

import errno
import os
import stat

from trainyard.local.containers import kernel
from trainyard.local.containers.container_command import CANNOT_START, StartError

# Everything here is called once per container, in milliseconds: os and os.path, not pathlib.
# ruff: noqa: PTH101, PTH102, PTH106, PTH110, PTH112, PTH115, PTH116, PTH117, PTH118, PTH120, PTH211

_MOST_LINKS = 40
"""As the kernel: a path with more symbolic links is a loop."""
_LARGEST_FOLDER = 10_000
"""Entries of a folder that has to be covered; each is a mount."""
_WORKBENCH = "/.trainyard"


class MountTree:
    """The tree while it is built at `stage`, an existing folder of the host, covered in this namespace only."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._ours: set[str] = set()
        """Folders, as the container sees them, that lie in a tmpfs of ours: entries can be made freely."""
        self._read_only: dict[str, bool] = {}
        """Targets mounted so far."""
        self._to_close: list[str] = []
        """Covered folders of read-only mounts, writable only until all is mounted."""

    def build(self, mounts: list[tuple[str, str, bool]], *, own_proc: bool) -> None:
        """Build the tree with mounts of (source, target, read only) and make it this process's root."""
        # Nothing of ours reaches the host; what the host mounts or unmounts later reaches the container.
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_SLAVE)
        # Opened before anything is covered: a source may lie where the stage does, or below another mount's target.
        opened = [(_open_source(source, target), source, target, read_only) for source, target, read_only in mounts]
        kernel.mount("tmpfs", self._stage, "tmpfs", 0, "mode=0755")
        # The stage lies inside what is bound into it; an unbindable mount is left out of that.
        kernel.mount(None, self._stage, None, kernel.MS_UNBINDABLE)
        self._bind_entries("/", self._stage)
        self._ours.add("/")
        for fd, source, target, read_only in sorted(opened, key=lambda mount: os.path.normpath(mount[2]).count("/")):
            try:
                self._add(fd, target, read_only)
                os.close(fd)
            except OSError as error:
                raise StartError(CANNOT_START, f"mount {source!r} at {target!r}: {error.strerror}") from error
        for folder in self._to_close:
            kernel.mount(None, self._at(folder), None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)
        if own_proc:
            kernel.mount("proc", self._at("/proc"), "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        kernel.mount(None, self._stage, None, kernel.MS_PRIVATE)  # A container inside this one binds from it.
        kernel.change_root(self._stage)

    def _at(self, path: str) -> str:
        return self._stage + path

    def _add(self, fd: int, target: str, read_only: bool) -> None:
        place = self._resolve(target)
        self._make_place(place, stat.S_ISDIR(os.fstat(fd).st_mode))
        kernel.mount(f"/proc/self/fd/{fd}", self._at(place), None, kernel.MS_BIND | kernel.MS_REC)
        if read_only:
            kernel.make_read_only(self._at(place))
        self._read_only[place] = read_only
        self._ours = {folder for folder in self._ours if not _is_below(folder, place)}

    def _resolve(self, path: str) -> str:
        """Follow symbolic links as the container will; parts that do not exist stay as they are."""
        parts = [part for part in path.split("/") if part not in ("", ".")][::-1]
        here, links = "/", 0
        while parts:
            part = parts.pop()
            if part == "..":
                here = os.path.dirname(here)
                continue
            candidate = os.path.join(here, part)
            try:
                link = os.readlink(self._at(candidate))
            except OSError:  # Not a link, or not there.
                here = candidate
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            parts += [part for part in link.split("/") if part not in ("", ".")][::-1]
            if link.startswith("/"):
                here = "/"
        return here

    def _make_place(self, place: str, is_folder: bool) -> None:
        """See to it that something of the right type is there to mount on."""
        if os.path.exists(self._at(place)):
            if os.path.isdir(self._at(place)) != is_folder:
                kinds = ("a folder", "a file") if is_folder else ("a file", "a folder")
                raise OSError(errno.EINVAL, f"{kinds[0]} cannot be mounted over {kinds[1]}")
            return
        parent = os.path.dirname(place)
        missing = []
        while not os.path.exists(self._at(parent)):
            missing.append(parent)
            parent = os.path.dirname(parent)
        if parent not in self._ours and self._read_only_around(parent) is not False:
            self._cover(parent)
            if self._read_only_around(parent):
                self._to_close.append(parent)
        for folder in reversed(missing):
            os.mkdir(self._at(folder), 0o755)
        if is_folder:
            os.mkdir(self._at(place), 0o755)
        else:
            _touch(self._at(place))
        if parent in self._ours:
            self._ours.update(missing)

    def _read_only_around(self, folder: str) -> bool | None:
        """Say whether the mount of ours that a folder lies in is read-only; None when it lies in the host's tree."""
        around = [target for target in self._read_only if target == folder or _is_below(folder, target)]
        return self._read_only[max(around, key=len)] if around else None

    def _cover(self, folder: str) -> None:
        """Lay a tmpfs with the same entries over a folder, so that more can be added."""
        bench = self._at(_WORKBENCH)
        os.mkdir(bench)
        kernel.mount("tmpfs", bench, "tmpfs", 0, "mode=0755")
        self._bind_entries(self._at(folder), bench)
        status = os.stat(self._at(folder))
        try:
            os.chown(bench, status.st_uid, status.st_gid)
        except OSError:
            pass  # An owner that has no number in this user namespace.
        os.chmod(bench, status.st_mode & 0o7777)
        kernel.mount(bench, self._at(folder), None, kernel.MS_MOVE)
        os.rmdir(bench)
        self._ours.add(folder)

    def _bind_entries(self, source: str, target: str) -> None:
        try:
            entries = os.scandir(source)
        except PermissionError:
            if os.access(source, os.X_OK):
                raise
            return  # Nothing in it can be reached by this user anyway, such as /root.
        with entries:
            for count, entry in enumerate(entries):
                if count == _LARGEST_FOLDER:
                    raise OSError(errno.E2BIG, f"{source!r} has too many entries to add one in this namespace only")
                try:
                    _bind_entry(entry, f"{target}/{entry.name}")
                except FileNotFoundError:
                    continue  # It was removed meanwhile.


def _open_source(source: str, target: str) -> int:
    if not os.path.isabs(target) or os.path.normpath(target) == "/":
        raise StartError(CANNOT_START, f"mount {source!r} at {target!r}: expected an absolute path other than '/'")
    try:
        return os.open(source, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise StartError(CANNOT_START, f"mount {source!r} at {target!r}: the source: {error.strerror}") from error


def _bind_entry(entry: os.DirEntry[str], target: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(target)
    else:
        _touch(target)
    kernel.mount(entry.path, target, None, kernel.MS_BIND | kernel.MS_REC)


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")
