"""Killing things: nothing accepted is lost, nothing is left behind, the record says what happened."""

import os
import signal
import subprocess

from conftest import BIN, Daemon, blobs_spec, wait_for


def supervisor_of(daemon, job_id):
    from conftest import process_table

    folder = str(daemon.job_dir(job_id))
    return next(pid for pid, _, command in process_table() if "accel-supervisor" in command and folder in command)


def test_job_survives_the_daemon(own_daemon):
    own_daemon.submit(blobs_spec(epochs=400), "survivor")
    own_daemon.wait_step("survivor", 10)
    own_daemon.kill()
    own_daemon.start()
    job = own_daemon.wait_state("survivor", "SUCCEEDED")
    assert len(job["attempts"]) == 1
    rows = own_daemon.accelctl("metrics", "--csv", "--key", "train/loss", "survivor").stdout.splitlines()[1:]
    steps = [int(row.split(",")[2]) for row in rows]
    assert steps == list(range(1, 400 * 8 + 1))


def test_queued_job_survives_the_daemon(own_daemon):
    own_daemon.submit(blobs_spec(epochs=1000000), "blocker")
    own_daemon.wait_step("blocker", 1)
    own_daemon.submit(blobs_spec(), "waiting")
    own_daemon.kill()
    own_daemon.start()
    assert own_daemon.job("waiting")["state"] == "QUEUED"
    own_daemon.accelctl("cancel", "blocker")
    own_daemon.wait_state("waiting", "SUCCEEDED")


def test_killed_supervisor_ends_the_job_and_its_workers(own_daemon):
    own_daemon.submit(blobs_spec(epochs=1000000), "orphaned")
    own_daemon.wait_step("orphaned", 10)
    workers = [int(w["pid"]) for w in own_daemon.job("orphaned")["attempts"][0]["workers"]]
    os.kill(supervisor_of(own_daemon, "orphaned"), signal.SIGKILL)
    failure = own_daemon.wait_state("orphaned", "FAILED", seconds=30)["failure"]
    assert failure["cause"] == "SUPERVISOR"
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), "workers are gone", 10)


def test_second_daemon_on_a_state_folder_is_refused(daemon):
    second = subprocess.run(
        [BIN / "acceld", "--state_dir", daemon.state_dir, "--metrics_address", "off"],
        capture_output=True, text=True, timeout=20)
    assert second.returncode == 3
    assert str(daemon.process.pid) in second.stderr + second.stdout
    assert daemon.json("node")["pid"] == str(daemon.process.pid)


def test_port_in_use_names_the_address(daemon, tmp_path):
    for flag, address in (("--listen", daemon.tcp_address), ("--metrics_address", daemon.info["metrics_address"])):
        state_dir = tmp_path / flag.strip("-")
        state_dir.mkdir()
        second = subprocess.run(
            [BIN / "acceld", "--state_dir", state_dir, "--metrics_address", "off", flag, address]
            if flag == "--listen" else [BIN / "acceld", "--state_dir", state_dir, flag, address],
            capture_output=True, text=True, timeout=20)
        assert second.returncode == 4
        assert address in second.stderr + second.stdout


def test_address_beyond_loopback_is_refused(tmp_path):
    result = subprocess.run(
        [BIN / "acceld", "--state_dir", tmp_path, "--listen", "0.0.0.0:0", "--metrics_address", "off"],
        capture_output=True, text=True, timeout=20)
    assert result.returncode == 2
    assert "0.0.0.0" in result.stderr + result.stdout
