"""Tries on this machine what `namespaces` would do for a container, in processes that are gone afterwards.

Run by `isolation` through `lean_start`; prints `{"found": {"user": ..., "pid": ...} or null, "reasons": [...]}`.
"""

from __future__ import annotations

import json
import os

from trainyard.local.containers import kernel, process_tree
from trainyard.local.containers.container_command import StartError
from trainyard.local.containers.namespaces import FirstProcess, enter

# ruff: noqa: PTH120

_FOLDER, _FILE = "/.trainyard-probe/deeper", "/dev/.trainyard-probe"


def main() -> None:
    """Print the best that works."""
    reasons: list[str] = []
    for namespaces in (
        {"user": False, "pid": True},
        {"user": True, "pid": True},
        {"user": False, "pid": False},
        {"user": True, "pid": False},
    ):
        if namespaces["user"] or os.geteuid() == 0:
            reason = _try(namespaces)
            if not reason:
                print(json.dumps({"found": namespaces, "reasons": reasons}))
                return
            reasons.append(reason)
    print(json.dumps({"found": None, "reasons": reasons}))


def _try(namespaces: dict[str, bool]) -> str:
    """Run a command that checks what it sees, in a child; give the reason why not, or nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, _check(namespaces).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        reason = file.read()
    _, status = os.waitpid(child, 0)
    return reason or ("" if status == 0 else f"the trial ended with status {status}")


def _check(namespaces: dict[str, bool]) -> str:
    here = os.path.dirname(__file__)
    instructions = {
        "namespaces": namespaces,
        "mounts": [(here, _FOLDER, True), (__file__, _FILE, False)],
        "hostname": "trainyard-probe",
        "log_file": __file__,
        "working_dir": _FOLDER,
        "argv": ["/bin/sh", "-c", f'test -f {_FILE} && test "$(uname -n)" = trainyard-probe && cd /proc/self'],
        "environment": {"PATH": "/usr/bin:/bin"},
        "umask": 0o022,
    }
    from trainyard.local.containers import container_command

    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if namespaces["pid"]:
            first = FirstProcess(instructions, nothing)
            os.waitpid(first.pid, 0)
            status = first.command_status()
        else:
            _, status = os.waitpid(container_command.spawn(instructions, nothing, lambda: enter(instructions)), 0)
    except StartError as error:
        return str(error)
    finally:
        process_tree.kill_all_below(lambda *_: None)
    return "" if status == 0 else f"a command in the namespace saw the wrong files (status {status})"


assert kernel.IS_LINUX
