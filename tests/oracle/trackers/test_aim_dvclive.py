"""Aim, by its own server, and DVCLive: every value of a job's record read back by the packages."""

import json
import os
import signal

import pytest
import yaml
from conftest import Server, TRACKERS, accelerate_run, system
from cut_proxy import CutProxy
from test_services import assert_config, read, series
from test_trackers import by_step, job_spec, record, trackers

pytestmark = pytest.mark.skipif(not TRACKERS.exists(), reason="tests/run installs the trackers")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server("aim", tmp_path_factory.mktemp("aim"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def front(server):
    proxy = CutProxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory, data_root, front):
    state_dir = tmp_path_factory.mktemp("node") / "state"
    state_dir.mkdir(mode=0o700)
    daemon = system.Daemon(state_dir, data_root, "--tracker_env", f"AIM_REPO=aim://127.0.0.1:{front.port}").start()
    yield daemon
    daemon.close()


def aim_run(server, node, job):
    """The run of a job; a run's name is its project."""
    location = trackers(node, job)["aim"]["location"]
    run, = [r for r in read("aim", server.folder) if location.endswith(r["hash"])]
    return run


def assert_aim(rows, run):
    points = series(rows)
    assert {key: sorted(values) for key, values in run["metrics"].items()} == points
    assert not run["active"] and run["end_time"]
    for key, values in points.items():
        numbers = [value for _, value in values]
        trace = run["traces"][key]
        assert (trace["first"], trace["first_step"]) == (values[0][1], values[0][0])
        assert (trace["last"], trace["last_step"]) == (values[-1][1], values[-1][0])
        assert (trace["min"], trace["max"], trace["dtype"]) == (min(numbers), max(numbers), "float")
    assert_config(run["hparams"])


def test_aim_has_every_value_and_what_accelerate_gives_it(node, server, tmp_path):
    job = node.submit({**job_spec({"aim": {"experiment": "mine"}}, {"tensorboard": {}})}, "aim")
    node.wait_state(job, "SUCCEEDED")
    rows = record(node, job)
    ours = aim_run(server, node, job)
    assert_aim(rows, ours)
    assert ours["name"] == "blobs" and ours["experiment"] == "mine"
    hparams, = (node.job_dir(job) / "trackers" / "tensorboard").rglob("hparams.yml")
    given = {"config": yaml.safe_load(hparams.read_text()),
             "options": {"experiment": "theirs", "system_tracking_interval": None, "capture_terminal_logs": False},
             "rows": [[step, values] for step, values in by_step(rows).items()]}
    # Accelerate's own Run with the server as its repository.
    accelerate_run("aim", "blobs", tmp_path, given, {"ACCEL_LOGGING_DIR": f"aim://127.0.0.1:{server.port}"})
    theirs, = [r for r in read("aim", server.folder) if r["experiment"] == "theirs"]
    for part in ("name", "metrics", "hparams", "active"):
        assert ours[part] == theirs[part], part
    for key, trace in ours["traces"].items():
        assert {k: v for k, v in trace.items() if k in theirs["traces"][key]} == theirs["traces"][key]


def test_aim_connections_that_are_cut_lose_nothing(node, server, front):
    # Cut in a request, in the handshake, in messages.
    front.after[:] = [10, None, 300, None, 2000, None, 20000, None, 1, None]
    job = node.submit(job_spec({"aim": {}}, epochs=30), "aim-cut")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)
    if state["aim"]["state"] != "FINISHED":
        state = trackers(node, job, "sync")
    assert state["aim"]["state"] == "FINISHED" and front.cuts >= 2, state
    assert_aim(record(node, job), aim_run(server, node, job))


def test_aim_server_that_is_away_gets_everything_later(node, server, front):
    front.is_open = False
    job = node.submit(job_spec({"aim": {}}), "aim-away")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)["aim"]
    assert state["state"] == "FAILING" and int(state["lag_rows"]) == len(record(node, job))
    front.is_open = True
    assert trackers(node, job, "sync")["aim"]["state"] == "FINISHED"
    assert_aim(record(node, job), aim_run(server, node, job))


def test_aim_server_and_supervisor_killed_in_the_middle(node, server):
    # Aim's server takes some milliseconds for a row.
    spec = job_spec({"aim": {}}, epochs=20000)
    spec["loop"].update(log_every_steps=100, evaluate_every_epochs=1000)
    job = node.submit(spec, "aim-killed")
    node.wait_step(job, 200)
    system.wait_for(lambda: int(trackers(node, job).get("aim", {}).get("rows", 0)) > 0, "the tracker is fed")
    server.process.kill()
    server.process.wait()
    server.start()
    rows = int(trackers(node, job)["aim"]["rows"])
    system.wait_for(lambda: int(trackers(node, job)["aim"]["rows"]) > rows, "the tracker is fed again")
    supervisor, = [pid for pid, _, command in system.process_table()
                   if "accel-supervisor" in command and str(node.job_dir(job)) in command]
    os.kill(supervisor, signal.SIGKILL)
    node.wait_state(job, "FAILED")
    assert trackers(node, job, "sync")["aim"]["state"] == "FINISHED"
    assert_aim(record(node, job), aim_run(server, node, job))


def test_dvclive_has_every_value_and_what_accelerate_gives_it(node, tmp_path):
    job = node.submit(job_spec({"dvclive": {}}, {"tensorboard": {}}), "dvclive")
    node.wait_state(job, "SUCCEEDED")
    rows = record(node, job)
    ours = read("dvclive", node.job_dir(job) / "trackers" / "dvclive")
    history = {key: [[int(row["step"]), float(row[key.split("/")[-1]])] for row in lines]
               for key, lines in ours["history"].items()}
    assert history == series(rows)
    assert_config(ours["params"])
    assert ours["summary"]["train"]["loss"] == series(rows)["train/loss"][-1][1]
    assert ours["summary"]["step"] == rows[-1][0]
    hparams, = (node.job_dir(job) / "trackers" / "tensorboard").rglob("hparams.yml")
    given = {"config": yaml.safe_load(hparams.read_text()), "options": {"save_dvc_exp": False},
             "rows": [[step, values] for step, values in by_step(rows).items()]}
    accelerate_run("dvclive", "blobs", tmp_path, given, {})
    theirs = read("dvclive", tmp_path)
    # Theirs says where it lies, the values, files and texts are the same.
    assert ours == theirs


def test_dvclive_after_a_killed_supervisor(node):
    job = node.submit(job_spec({"dvclive": {}}, epochs=4000), "dvclive-killed")
    node.wait_step(job, 200)
    supervisor, = [pid for pid, _, command in system.process_table()
                   if "accel-supervisor" in command and str(node.job_dir(job)) in command]
    os.kill(supervisor, signal.SIGKILL)
    node.wait_state(job, "FAILED")
    assert trackers(node, job, "sync")["dvclive"]["state"] == "FINISHED"
    ours = read("dvclive", node.job_dir(job) / "trackers" / "dvclive")
    history = {key: [[int(row["step"]), float(row[key.split("/")[-1]])] for row in lines]
               for key, lines in ours["history"].items()}
    assert history == series(record(node, job))


def test_trackers_that_need_nothing_are_part_of_all(node):
    job = node.submit(job_spec(log_with=["all"]), "all-here")
    node.wait_state(job, "SUCCEEDED")
    assert set(trackers(node, job)) == {"tensorboard", "aim", "dvclive", "trackio"}
    left_out = json.dumps(node.job(job)["warnings"])
    for name in ("swanlab", "comet_ml", "clearml"):
        assert f"{name} is left out: the node has no secret" in left_out
