"""What kind of isolation is found, and how it can be forced."""

import re
import subprocess
import sys
import time

import pytest

from trainyard.contract.errors import ConfigError
from trainyard.local.containers import lean_start
from trainyard.local.containers.isolation import detect_isolation


def test_mapped_can_be_forced() -> None:
    for found in (detect_isolation("mapped", {}), detect_isolation(None, {"TRAINYARD_ISOLATION": "mapped"})):
        assert (found.paths, str(found)) == ("mapped", "mapped (asked for)")
        assert found.to_instructions() is None


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"TRAINYARD_ISOLATION: expected auto, namespace or mapped, got 'docker'"):
        detect_isolation(None, {"TRAINYARD_ISOLATION": "docker"})


def test_the_answer_is_kept() -> None:
    first = detect_isolation("auto", {})
    begin = time.perf_counter()
    assert detect_isolation("auto", {}) is first
    assert time.perf_counter() - begin < 0.001


def test_only_the_machine_is_a_reason_against_namespaces() -> None:
    assert not re.search("Error|Exception|status", detect_isolation("auto", {}).reason)


@pytest.mark.needs("namespace")
def test_a_namespace_is_found_where_it_is_permitted() -> None:
    found = detect_isolation("namespace", {})
    assert (found.paths, found.reason, found.private_hostname) == ("namespace", "", True)
    assert str(found).startswith("namespace (mount")


FORBID = """
from trainyard.local.containers import isolation
from trainyard.local.containers import kernel
kernel.enter_user_namespace(0)
open("/proc/sys/user/max_mnt_namespaces", "w").write("0")
print(isolation.detect_isolation("auto"))
try:
    isolation.detect_isolation("namespace")
except isolation.ConfigError as error:
    print(error)
"""


@pytest.mark.needs("namespace")
def test_a_machine_that_forbids_namespaces_is_mapped_and_says_why() -> None:
    done = subprocess.run([sys.executable, "-c", FORBID], capture_output=True, text=True, check=True)
    found, refusal = done.stdout.splitlines()
    reason = "make the container's namespaces: no more namespaces are allowed (sysctl user.max_*_namespaces)"
    assert found == f"mapped ({reason})"
    assert refusal == f"TRAINYARD_ISOLATION: 'namespace' is not possible on this machine: {reason}; use 'mapped'"


def test_a_lean_python_starts_quickly_and_sees_only_its_folder() -> None:
    assert lean_start.command_line("keeper", "3", "4")[-3:] == ["keeper", "3", "4"]
    line = [*lean_start.command_line("isolation")[:5], "-X", "importtime", lean_start.__file__, "process_tree"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert "has no attribute 'main'" in done.stderr
    assert "trainyard.local.containers.process_tree" in done.stderr
    for heavy in ("pathlib", "typing", "dataclasses", "subprocess", "site"):
        assert f" {heavy}\n" not in done.stderr
