"""Real jobs whose trackers' own packages and servers read back every value of the job's record."""

import json
import os
import signal
import sqlite3

import pytest
from conftest import KEY, MLFLOW_TOKEN, TRACKERS, TRACKIO_TOKEN, read, system
pytestmark = pytest.mark.skipif(not TRACKERS.exists(), reason="tests/run installs the trackers")


def job_spec(*trackers, epochs=2, **tracking):
    return {**system.blobs_spec(ranks=1, epochs=epochs, evaluate_every_epochs=1),
            "tracking": {"project": "blobs", "config": {"owner": "nobody", "ratio": "0.5"},
                         "trackers": list(trackers), **tracking}}


ONLINE = [{"wandb": {"tags": ["a", "b"], "group": "g"}}, {"mlflow": {"tags": {"team": "x"}}}, {"trackio": {}}]


def record(node, job):
    """Rows of the job's record: (step, time in ms, {key: number})."""
    rows = [json.loads(line) for line in node.accelctl("-o", "json", "metrics", job).stdout.splitlines()]
    result = []
    for row in rows:
        values = {key: float(value["number"]) for key, value in row["values"].items()}
        result.append((int(row.get("step", 0)), row["time"], values))
    assert result
    return result


def by_step(rows):
    steps = {}
    for step, _, values in rows:
        steps.setdefault(step, {}).update(values)
    return steps


def assert_wandb(rows, history):
    own = ("_step", "_timestamp", "_runtime")
    assert [row["_step"] for row in history] == sorted(by_step(rows))
    assert {row["_step"]: {k: v for k, v in row.items() if k not in own} for row in history} == by_step(rows)
    assert all(a["_timestamp"] <= b["_timestamp"] for a, b in zip(history, history[1:]))


def assert_mlflow(rows, run):
    points = {}
    for step, time, values in rows:
        for key, value in values.items():
            points.setdefault(key, []).append([step, value])
    assert {key: [[s, v] for s, v, _ in history] for key, history in run["metrics"].items()} == points


def assert_trackio(rows, logs):
    own = ("step", "timestamp")
    assert [(log["step"], {k: v for k, v in log.items() if k not in own}) for log in logs] == [
        (step, values) for step, _, values in rows]


def one(runs, name):
    found = [run for run in runs if run["name"] == name]
    assert len(found) == 1, [run["name"] for run in runs]
    return found[0]


def wandb_run(server, name):
    found = [key for key, run in server.runs.items() if run["run"].get("displayName") == name]
    assert len(found) == 1
    return found[0]


def assert_online(node, job, servers, status="FINISHED"):
    mlflow, trackio, wandb = servers
    # On a slow machine the job's grace may be too short for a server's first answer.
    if any(tracker["state"] != "FINISHED" for tracker in trackers(node, job).values()):
        trackers(node, job, "sync")
    rows = record(node, job)
    run = one(read("mlflow", mlflow.url), job)
    assert_mlflow(rows, run)
    assert run["status"] == status
    assert_trackio(rows, one(read("trackio", trackio.folder), job)["logs"])
    key = wandb_run(wandb, job)
    assert_wandb(rows, wandb.rows(key))
    return rows, run, wandb.runs[key]


@pytest.fixture
def servers(mlflow_server, trackio_server, wandb_server):
    return mlflow_server, trackio_server, wandb_server


def trackers(node, job, *arguments, check=True):
    result = node.accelctl("-o", "json", "trackers", *arguments, job, check=check)
    return {t["name"]: t for t in json.loads(result.stdout)["trackers"]}


def warnings(node, job):
    return [e["message"] for e in system.Daemon.json(node, "get", job).get("events", [])]


def secret_is_nowhere(node, job):
    for path in [*node.job_dir(job).rglob("*"), node.state_dir.parent / "acceld.log"]:
        if path.is_file():
            data = path.read_bytes()
            for secret in (KEY, TRACKIO_TOKEN, MLFLOW_TOKEN, "f" * 40):
                assert secret.encode() not in data, path


def test_every_value_arrives_online(node, servers):
    job = node.submit(job_spec(*ONLINE), "online")
    node.wait_state(job, "SUCCEEDED")
    rows, run, wandb = assert_online(node, job, servers)
    assert any("eval/loss" in values for _, _, values in rows)
    for params in (run["params"], wandb["config"]):
        assert params["owner"] == "nobody"
        assert str(params["optimizer.adamw.lr"]) == "0.01"
        assert str(params["accelerator.gradient_accumulation_plugin.num_steps"]) == "1"
    assert run["tags"]["team"] == run["experiment_tags"]["team"] == "x"
    assert wandb["exitcode"] == 0 and wandb["run"]["tags"] == ["a", "b"] and wandb["run"]["groupName"] == "g"
    assert wandb["summary"]["train/loss"] == rows[-1][2].get("train/loss", by_step(rows)[max(by_step(rows))]["train/loss"])
    config = one(read("trackio", servers[1].folder), job)["config"]
    assert config["owner"] == "nobody" and config["optimizer.adamw.lr"] == 0.01
    state = trackers(node, job)
    assert [t["state"] for t in state.values()] == ["FINISHED"] * 3
    assert {int(t["rows"]) for t in state.values()} == {len(rows)}
    assert all("lagRows" not in t and "lag_rows" not in t for t in state.values())
    secret_is_nowhere(node, job)


def test_offline_files_are_read_by_the_packages(node, wandb_server):
    job = node.submit(job_spec({"wandb": {"mode": "offline", "id": "offline-1"}}, {"tensorboard": {}}), "offline")
    node.wait_state(job, "SUCCEEDED")
    log, = node.job_dir(job).glob("trackers/wandb/wandb/offline-run-*/run-offline-1.wandb")
    assert read("wandb", log, wandb_server.url, KEY)["marked"]
    assert_wandb(record(node, job), wandb_server.rows("offline-1"))
    uploaded = wandb_server.runs["offline-1"]
    assert uploaded["exitcode"] == 0
    assert uploaded["config"]["owner"] == "nobody"
    assert uploaded["summary"]["train/loss"] == by_step(record(node, job))[uploaded["summary"]["_step"]]["train/loss"]


@pytest.fixture
def local_node(tmp_path, data_root):
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    daemon = system.Daemon(state_dir, data_root).start()
    yield daemon
    daemon.close()


def test_trackio_without_a_server_and_trackers_by_name(local_node):
    job = local_node.submit(job_spec({"trackio": {"storage": "inbox", "name": "inbox"}}), "inbox")
    local_node.submit(job_spec(log_with=["all"]), "all")
    local_node.wait_state("inbox", "SUCCEEDED")
    folder = local_node.job_dir(job) / "trackers" / "trackio"
    run, = read("trackio", folder, "--import")
    assert_trackio(record(local_node, job), run["logs"])
    assert run["name"] == "inbox" and run["project"] == "blobs" and run["config"]["owner"] == "nobody"
    local_node.wait_state("all", "SUCCEEDED")
    assert set(trackers(local_node, "all")) == {"dvclive", "tensorboard", "trackio"}
    warnings = local_node.job("all")["warnings"]
    assert any("wandb is left out: the node has no secret WANDB_API_KEY" in w for w in warnings)
    assert any("mlflow is left out" in w for w in warnings)
    run, = read("trackio", local_node.job_dir("all") / "trackers" / "trackio")
    assert_trackio(record(local_node, "all"), run["logs"])


def test_faults_in_the_middle_lose_and_repeat_nothing(node, servers, proxies):
    faults = [429, "unanswered", 500, "lost", "unanswered", 503, "slow"]
    for proxy in proxies.values():
        proxy.plan[:] = faults
    job = node.submit(job_spec(*ONLINE, epochs=30), "faults")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)
    if any(t["state"] != "FINISHED" for t in state.values()):
        state = trackers(node, job, "sync")
    assert [t["state"] for t in state.values()] == ["FINISHED"] * 3
    assert not any(proxy.plan for proxy in proxies.values())
    assert all(int(t["total_failures"]) >= 3 for t in state.values()), state
    assert_online(node, job, servers)


def test_a_server_that_is_away_gets_everything_later(node, servers, proxies):
    for proxy in proxies.values():
        proxy.plan[:] = ["lost"] * 10000
    job = node.submit(job_spec(*ONLINE), "away")
    node.wait_state(job, "SUCCEEDED")
    rows = record(node, job)
    for tracker in trackers(node, job).values():
        assert tracker["state"] == "FAILING" and int(tracker["lag_rows"]) == len(rows)
        assert "127.0.0.1" in tracker["last_error"]
    for proxy in proxies.values():
        proxy.plan.clear()
    assert {t["state"] for t in trackers(node, job, "sync").values()} == {"FINISHED"}
    assert_online(node, job, servers)
    # Once more changes nothing.
    writes = servers[2].runs[wandb_run(servers[2], job)]["writes"]
    assert {t["state"] for t in trackers(node, job, "sync").values()} == {"FINISHED"}
    assert servers[2].runs[wandb_run(servers[2], job)]["writes"] == writes


def train_steps_again(node, api, job, first, more):
    """Adds to an ended job's record what another attempt would have that goes back behind step `first`: every row from
    it on with other values, and `more` steps. Returns the rows of the first attempt and the new steps."""
    rows = []
    with sqlite3.connect(node.job_dir(job) / "job.db") as record_db:
        last, = record_db.execute("SELECT max(sequence) FROM rows").fetchone()
        for payload, in record_db.execute("SELECT payload FROM rows WHERE kind = 1 ORDER BY sequence").fetchall():
            rows.append(api.MetricRecord.FromString(payload))
        again = [row for row in rows if row.step >= first and "eval/loss" not in row.values]
        for i in range(more):
            again.append(api.MetricRecord.FromString(again[-1].SerializeToString()))
            again[-1].step += 1
        for row in again:
            last += 1
            row.sequence, row.attempt = last, rows[0].attempt + 1
            row.time.seconds += 100
            for value in row.values.values():
                value.number += 1000
            record_db.execute("INSERT INTO rows (sequence, kind, payload) VALUES (?, 1, ?)",
                              (last, row.SerializeToString()))
    return len(rows), {row.step for row in again[-more:]}


def test_steps_that_are_trained_again_leave_no_mixed_history(node, servers, proxies, api):
    for proxy in proxies.values():
        proxy.plan[:] = ["lost"] * 10000
    job = node.submit(job_spec(*ONLINE), "rewound")
    node.wait_state(job, "SUCCEEDED")
    count, new_steps = train_steps_again(node, api, job, first=10, more=3)
    for proxy in proxies.values():
        proxy.plan.clear()
    state = trackers(node, job, "sync")
    assert {t["state"] for t in state.values()} == {"FINISHED"}
    rows = record(node, job)
    # The first values of steps that were trained again stay, and nothing else is left out.
    kept = [row for i, row in enumerate(rows) if i < count or row[0] in new_steps]
    assert len(kept) == count + 3 < len(rows)
    assert_mlflow(kept, one(read("mlflow", servers[0].url), job))
    assert_trackio(kept, one(read("trackio", servers[1].folder), job)["logs"])
    assert_wandb(kept, servers[2].rows(wandb_run(servers[2], job)))
    log = (node.job_dir(job) / "supervisor.log").read_text()
    for name in ("mlflow", "trackio", "wandb"):
        assert f"are trained again: {name} keeps their first values" in log


def test_a_refused_key_stops_one_tracker_and_is_never_shown(node, servers):
    job = node.submit(job_spec({"wandb": {"api_key_secret": "WRONG_KEY"}}, {"mlflow": {}}), "refused")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)
    assert state["mlflow"]["state"] == "FINISHED"
    assert state["wandb"]["state"] == "STOPPED" and int(state["wandb"]["total_failures"]) == 1
    assert "401" in state["wandb"]["last_error"] and "<WRONG_KEY>" in state["wandb"]["last_error"]
    secret_is_nowhere(node, job)


def test_a_killed_supervisor_leaves_nothing_behind(node, servers):
    spec = job_spec(*ONLINE, {"tensorboard": {}}, epochs=4000)
    job = node.submit(spec, "killed")
    node.wait_step(job, 200)
    system.wait_for(lambda: all(int(t.get("rows", 0)) > 0 for t in trackers(node, job).values()), "all are fed")
    supervisor, = [pid for pid, _, command in system.process_table()
                   if "accel-supervisor" in command and str(node.job_dir(job)) in command]
    os.kill(supervisor, signal.SIGKILL)
    node.wait_state(job, "FAILED")
    assert {t["state"] for t in trackers(node, job, "--timeout=200", "sync").values()} == {"FINISHED"}
    _, _, wandb = assert_online(node, job, servers, status="FAILED")
    assert wandb["exitcode"] == 1


def test_a_node_refuses_what_it_cannot_serve(node):
    wrong = job_spec({"mlflow": {"tracking_uri": "http://10.0.0.1:5000"}}, {"wandb": {"api_key_secret": "NONE"}},
                     log_with=["wandb", "excel"])
    result = node.accelctl("validate", "-", input=json.dumps(wrong), check=False)
    assert result.returncode == 2
    assert "the node does not send its secret MLFLOW_TRACKING_TOKEN there" in result.stderr
    assert "the node has no secret NONE" in result.stderr
    assert '"excel" is not allowed; allowed: all, tensorboard, wandb, comet_ml' in result.stderr
