"""Containers of a pod start, restart and end in the kubelet's order."""

import errno
import socket

import pytest


def test_init_containers_run_one_after_another_before_the_others(make_job, write):
    job = make_job(
        write.replicated(
            "w",
            "echo main >> order",
            init=[write.shell("sleep 0.05; echo one >> order", "one"), write.shell("echo two >> order", "two")],
        )
    )
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["one", "two", "main"]


def test_a_failed_init_container_ends_the_pod(make_job, write):
    job = make_job(write.replicated("w", "echo main >> order", init=[write.shell("exit 66", "fetch")]))
    status = job.run()
    assert status["message"].startswith("pod j-w-0-0, container fetch: exit code 66")
    assert job.lines() == [] and job.container("j-w-0-0")["state"] == "waiting"


def test_a_sidecar_starts_before_and_ends_after_the_main_container(make_job, write):
    sidecar = write.shell(
        "echo up >> order; touch up; trap 'echo down >> order; exit 0' TERM; while :; do sleep 0.01; done",
        "side",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-e", "up"]}},
    )
    job = make_job(write.replicated("w", "echo main >> order", init=[sidecar]))
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["up", "main", "down"]
    assert job.pods["j-w-0-0"]["phase"] == "Succeeded"


def test_sidecars_end_in_reverse_order(make_job, write):
    def sidecar(name):
        script = f"touch {name}; trap 'echo {name} >> order; exit 0' TERM; while :; do sleep 0.01; done"
        probe = {"exec": {"command": ["test", "-e", name]}}
        return write.shell(script, name, restartPolicy="Always", startupProbe=probe)

    job = make_job(write.replicated("w", "true", init=[sidecar("one"), sidecar("two")]))
    assert job.run()["phase"] == "Complete"
    assert job.lines() == ["two", "one"]


def test_a_sidecar_that_fails_is_restarted_and_does_not_fail_the_pod(make_job, write):
    sidecar = write.shell("echo x >> order; exit 3", "side", restartPolicy="Always")
    script = "while [ $(grep -c x order) -lt 3 ]; do sleep 0.01; done"
    job = make_job(write.replicated("w", script, init=[sidecar]))
    assert job.run()["phase"] == "Complete"
    assert job.container("j-w-0-0", "side")["restartCount"] >= 2


def test_a_sidecar_that_ignores_sigterm_is_killed_after_the_grace_period(make_job, write):
    sidecar = write.shell(
        "trap '' TERM; touch up; while :; do sleep 0.05; done",
        "side",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-e", "up"]}},
    )
    job = make_job(write.replicated("w", "true", init=[sidecar], pod={"terminationGracePeriodSeconds": 1}))
    assert job.run()["phase"] == "Complete"
    assert job.container("j-w-0-0", "side")["exitCode"] == 137


def test_all_main_containers_must_succeed(make_job, write):
    job = make_job(
        write.replicated("w", write.shell("exit 4", "bad"), write.shell("sleep 0.1; echo good >> order", "good"))
    )
    status = job.run()
    assert status["phase"] == "Failed" and job.lines() == ["good"]  # Never: the others run to their end.
    assert status["message"].startswith("pod j-w-0-0, container bad: exit code 4")


def test_on_failure_restarts_the_container_and_keeps_the_log_before(make_job, write):
    script = "if [ ! -e once ]; then touch once; echo first; exit 1; fi; echo second"
    job = make_job(write.replicated("w", script, pod={"restartPolicy": "OnFailure"}, job={"backoffLimit": 6}))
    assert job.run()["phase"] == "Complete"
    assert (job.log("j-w-0-0", previous=True), job.log("j-w-0-0")) == ("first\n", "second\n")
    assert job.container("j-w-0-0")["restartCount"] == 1 and job.pods["j-w-0-0"]["attempt"] == 0
    assert "BackOff" in job.reasons()


def test_a_command_that_cannot_be_started_fails_the_pod(make_job, write):
    job = make_job(write.replicated("w", {"name": "c", "command": ["no-such-command"]}))
    status = job.run()
    assert status["phase"] == "Failed" and "no-such-command" in status["message"]
    assert job.container("j-w-0-0")["reason"] == "StartError"


@pytest.mark.parametrize("step", ["prepare", "start"])
def test_what_cannot_be_prepared_or_started_fails_the_pod_with_its_code(make_job, write, monkeypatch, step):
    job = make_job(write.replicated("w", "true"))

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job.machine, step, fail)
    status = job.run()
    assert job.container("j-w-0-0")["exitCode"] == 74
    assert status["message"].startswith("pod j-w-0-0, container c: exit code 74 (the disk or quota is full): NoSpace")


def test_a_pods_own_deadline_fails_it(make_job, write):
    job = make_job(write.replicated("w", "exec sleep 60", pod={"activeDeadlineSeconds": 1}))
    assert job.run()["phase"] == "Failed"
    assert job.pods["j-w-0-0"]["reason"] == "DeadlineExceeded"


def test_the_termination_message_is_the_reason(make_job, write):
    said = '{"code": 67, "reason": "Integrity", "message": "a.bin: 3 bytes, expected 4", "retryable": false}'
    job = make_job(write.replicated("w", f"echo '{said}' > $TERMINATION_LOG_PATH; exit 67"))
    assert job.run()["message"] == (
        "pod j-w-0-0, container c: exit code 67 (bytes differ from the digest or size that the source promised): "
        "Integrity: a.bin: 3 bytes, expected 4"
    )


@pytest.mark.parametrize("kind", ["tcpSocket", "httpGet"])
def test_a_network_probe_makes_a_pod_ready(make_job, write, kind):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = (
        "import os, socket\n"
        f"s = socket.create_server(('127.0.0.1', {port}))\n"
        "while not os.path.exists('done'):\n"
        "    s.settimeout(0.05)\n"
        "    try: c, _ = s.accept()\n"
        "    except TimeoutError: continue\n"
        "    c.settimeout(0.2)\n"
        "    try: c.recv(4096); c.sendall(b'HTTP/1.1 204 No Content\\r\\n\\r\\n')\n"
        "    except OSError: pass\n"
        "    c.close()\n"
    )
    job = make_job(
        write.replicated("server", write.python(server, readinessProbe={kind: {"port": port}})),
        write.replicated("client", "touch done", dependsOn=[{"name": "server", "status": "Ready"}]),
    )
    assert job.run()["phase"] == "Complete"


def test_a_failed_liveness_probe_ends_the_container(make_job, write):
    probe = {"exec": {"command": ["false"]}, "failureThreshold": 1}
    job = make_job(write.replicated("w", write.shell("exec sleep 60", livenessProbe=probe)))
    assert job.run()["phase"] == "Failed"
    assert job.container("j-w-0-0")["exitCode"] == 143 and "Unhealthy" in job.reasons()
