"""SwanLab, Comet and ClearML: jobs whose archives the packages read, and whose online calls stand-ins check."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import HERE, ROOT, TRACKERS, accelerate_run, system
from fault_proxy import FaultProxy
from services import CLEARML_KEYS, COMET_KEY, SWANLAB_KEY, ClearML, Comet, SwanLab
from test_trackers import by_step, job_spec, record, trackers, warnings

pytestmark = pytest.mark.skipif(not TRACKERS.exists(), reason="tests/run installs the trackers")

NAMES = ("swanlab", "comet_ml", "clearml")
ONLINE = [{"swanlab": {"tags": ["a", "b"], "group": "g", "description": "text"}}, {"comet_ml": {"tags": ["a", "b"]}},
          {"clearml": {"tags": ["a", "b"], "comment": "text"}}]


def read(*arguments):
    """What the package reads."""
    result = subprocess.run([TRACKERS, HERE / "read_runs.py", *map(str, arguments)], capture_output=True, text=True,
                            timeout=180, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def services():
    made = {"swanlab": SwanLab(), "comet_ml": Comet(), "clearml": ClearML()}
    yield made
    for service in made.values():
        service.close()


@pytest.fixture(scope="module")
def fronts(services):
    """A proxy in front of each service."""
    made = {name: FaultProxy(service.url) for name, service in services.items()}
    yield made
    for proxy in made.values():
        proxy.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory, data_root, fronts):
    folder = tmp_path_factory.mktemp("node")
    state_dir = folder / "state"
    state_dir.mkdir(mode=0o700)
    secrets = folder / "secrets"
    secrets.touch(mode=0o600)
    secrets.write_text(f"SWANLAB_API_KEY={SWANLAB_KEY}\nCOMET_API_KEY={COMET_KEY}\nCLEARML_API_KEYS={CLEARML_KEYS}\n"
                       f"WRONG={'wrong-' * 6}\nWRONG_PAIR={'wrong-' * 3}:{'wrong-' * 3}\n")
    daemon = system.Daemon(state_dir, data_root, "--secrets_file", secrets,
                           "--tracker_env", f"SWANLAB_API_HOST={fronts['swanlab'].url}",
                           "--tracker_env", f"COMET_URL_OVERRIDE={fronts['comet_ml'].url}/clientlib/",
                           "--tracker_env", f"CLEARML_API_HOST={fronts['clearml'].url}").start()
    yield daemon
    daemon.close()


def series(rows):
    """{key: [[step, value], ...]} of a record."""
    points = {}
    for step, _, values in rows:
        for key, value in values.items():
            points.setdefault(key, []).append([step, value])
    return points


def clearml_series(points):
    """The same as {title: {series: {step: value}}}: Accelerate's rule for titles."""
    found = {}
    for key, values in points.items():
        prefix = next((p for p in ("eval", "test", "train") if key.startswith(p + "_")), None)
        title = key[len(prefix) + 1:] if prefix else key
        found.setdefault(title, {}).setdefault(prefix or "train", {}).update(values)
    return found


def clearml_read(scalars):
    return {title: {name: dict(zip(s["x"], s["y"])) for name, s in lines.items()} for title, lines in scalars.items()}


def swanlab_run(services, name):
    return next(run for run in services["swanlab"].runs.values() if run["body"]["name"] == name)


def comet_run(services, name):
    return next(run for run in services["comet_ml"].experiments.values()
                if run["others"].get("Name") == name and "offline_experiment" not in run["others"])


def clearml_task(services, name):
    task, = [t for t in services["clearml"].tasks.values() if t["name"] == name]
    return read("clearml-task", task["id"], services["clearml"].url, CLEARML_KEYS)


def assert_config(config):
    assert config["owner"] == "nobody" and config["optimizer.adamw.lr"] == 0.01 and config["ratio"] == "0.5"
    assert config["accelerator.gradient_accumulation_plugin.num_steps"] == 1


def assert_swanlab(rows, run, state="FINISHED"):
    points = series(rows)
    assert {key: sorted([step, value] for step, value in held.items())
            for key, held in run["points"].items()} == points
    assert set(run["keys"]) == set(points) and run["state"] == state and run["beats"] >= 1
    assert {key: s.get("sectionName", "") for key, s in run["keys"].items()} == {
        key: key.split("/")[0] if "/" in key else "" for key in points}
    assert_config({key: entry["value"] for key, entry in run["config"].items()})


def comet_series(run):
    """Its points by step: the package uploads batches in any order."""
    sent = {}
    for name, step, value in run["metrics"]:
        sent.setdefault(name, []).append([step, value])
    return {key: sorted(values) for key, values in sent.items()}


def assert_comet(rows, run, is_exact=True):
    sent = comet_series(run)
    if not is_exact:
        sent = {key: [list(pair) for pair in sorted(set(map(tuple, values)))] for key, values in sent.items()}
    assert sent == series(rows)
    assert_config(run["parameters"])


def assert_clearml(rows, task, status="completed"):
    assert clearml_read(task["scalars"]) == clearml_series(series(rows))
    assert task["status"] == status
    assert_config(task["config"])


def assert_online(node, job, services, failed=False, is_exact=True):
    rows = record(node, job)
    assert_swanlab(rows, swanlab_run(services, job), "CRASHED" if failed else "FINISHED")
    comet = comet_run(services, job)
    assert_comet(rows, comet, is_exact)
    assert comet["alive"][0] and not comet["alive"][-1]
    assert comet["errors"] == (["the job failed"] if failed else [])
    task = clearml_task(services, job)
    assert_clearml(rows, task, "failed" if failed else "completed")
    return task, comet


def archives(node, job):
    folder = node.job_dir(job) / "trackers"
    swanlab, = (folder / "swanlab").glob("run-*")
    comet, = (folder / "comet_ml").glob("*.zip")
    clearml, = (folder / "clearml").glob("offline-*.zip")
    return swanlab, comet, clearml


def spec_of(name, kinds=NAMES, **options):
    """A job with these trackers, whose runs have the job's name."""
    chosen = [{kind: {**t[kind], **({"task_name": name} if kind == "clearml" else {})}}
              for t in ONLINE for kind in t if kind in kinds]
    return job_spec(*chosen, **options)


def no_refusals(services):
    for service in services.values():
        assert not service.refusals or all(r[1].endswith("/blobs") or r[2] == 401 or r[3].get("sdk_error_code")
                                           for r in service.refusals), service.refusals


def test_every_value_arrives_online_and_in_the_archives(node, services):
    job = node.submit(spec_of("online"), "online")
    node.wait_state(job, "SUCCEEDED")
    task, comet = assert_online(node, job, services)
    assert services["swanlab"].projects["somebody", "blobs"]["visibility"] == "PRIVATE"
    body = swanlab_run(services, job)["body"]
    assert (body["labels"], body["cluster"], body["description"]) == ([{"name": "a"}, {"name": "b"}], "g", "text")
    assert comet["tags"] == ["a", "b"] and comet["run"]["projectName"] == "blobs"
    assert comet["run"]["getOrCreateEnabled"] is True
    assert task["project"] == "blobs" and task["tags"] == ["a", "b"] and task["comment"] == "text"
    state = trackers(node, job)
    assert set(state) == {*NAMES, *(f"{name}_archive" for name in NAMES)}
    assert {t["state"] for t in state.values()} == {"FINISHED"}
    no_refusals(services)
    # The packages upload the archives to services of their own.
    own = {"swanlab": SwanLab(), "comet_ml": Comet(), "clearml": ClearML()}
    try:
        assert_archives(node, job, own)
    finally:
        for service in own.values():
            service.close()


def assert_archives(node, job, own, failed=False):
    rows = record(node, job)
    swanlab, comet, clearml = archives(node, job)
    run = read("swanlab", swanlab, own["swanlab"].url, SWANLAB_KEY)
    assert run["scalars"] == series(rows) and run["sync"]["status"] == 0
    assert run["start"]["project"] == "blobs" and run["start"]["name"] == job and run["start"]["tags"] == ["a", "b"]
    assert_config(run["config"])
    assert run["finish"]["state"] in ((2, "CRASHED", "RUN_STATE_CRASHED", "STATE_CRASHED") if failed else
                                      (1, "FINISHED", "RUN_STATE_FINISHED", "STATE_FINISHED")), run["finish"]
    synced, = own["swanlab"].runs.values()
    assert {k: sorted(map(list, held.items())) for k, held in synced["points"].items()} == series(rows)
    assert synced["state"] == ("CRASHED" if failed else "FINISHED")
    metadata = read("comet", comet, own["comet_ml"].base, COMET_KEY)
    uploaded, = own["comet_ml"].experiments.values()
    assert_comet(rows, uploaded)
    assert uploaded["others"]["Name"] == job and uploaded["tags"] == ["a", "b"]
    assert uploaded["errors"] == (["the job failed"] if failed else [])
    assert metadata["customer_error_reported"] == failed
    task = read("clearml-session", clearml, own["clearml"].url, CLEARML_KEYS)
    assert clearml_read(task["scalars"]) == clearml_series(series(rows))
    assert_config(task["config"])
    assert not any(service.refusals for name, service in own.items() if name != "swanlab")


def test_offline_needs_neither_keys_nor_services(tmp_path, data_root):
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    daemon = system.Daemon(state_dir, data_root, "--tracker_env", "CLEARML_OFFLINE_MODE=1",
                           "--tracker_env", "COMET_START_ONLINE=false", "--tracker_env", "SWANLAB_MODE=offline").start()
    own = {"swanlab": SwanLab(), "comet_ml": Comet(), "clearml": ClearML()}
    try:
        job = daemon.submit(spec_of("offline"), "offline")
        daemon.wait_state(job, "SUCCEEDED")
        assert set(trackers(daemon, job)) == set(NAMES)
        assert_archives(daemon, job, own)
    finally:
        daemon.close()
        for service in own.values():
            service.close()


def test_faults_in_the_middle_lose_nothing(node, services, fronts):
    faults = [429, "unanswered", 500, "lost", "unanswered", 503, "slow"]
    for front in fronts.values():
        front.plan[:] = faults
    job = node.submit(spec_of("faults", epochs=30), "faults")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)
    for _ in range(5):
        if all(t["state"] == "FINISHED" for t in state.values()):
            break
        state = trackers(node, job, "sync")
    assert {t["state"] for t in state.values()} == {"FINISHED"}, state
    assert not any(front.plan for front in fronts.values())
    assert all(int(state[name]["total_failures"]) >= 3 for name in NAMES), state
    # Comet keeps what it is sent: a batch whose answer is lost is there twice.
    assert_online(node, job, services, is_exact=False)


def test_services_that_are_away_get_everything_later(node, services, fronts):
    for front in fronts.values():
        front.plan[:] = ["lost"] * 10000
    job = node.submit(spec_of("away"), "away")
    node.wait_state(job, "SUCCEEDED")
    rows = record(node, job)
    state = trackers(node, job)
    for name in NAMES:
        assert state[name]["state"] == "FAILING" and int(state[name]["lag_rows"]) == len(rows), state[name]
        assert state[f"{name}_archive"]["state"] == "FINISHED"
    for front in fronts.values():
        front.plan.clear()
    assert {t["state"] for t in trackers(node, job, "sync").values()} == {"FINISHED"}
    assert_online(node, job, services)


def test_a_session_that_has_run_out_is_renewed(node, services):
    logins = services["swanlab"].logins
    services["swanlab"].session = "second"
    job = node.submit(spec_of("renewed", ["swanlab"], epochs=40), "renewed")
    system.wait_for(lambda: services["swanlab"].logins > logins, "the tracker has logged in")
    services["swanlab"].session = "third"
    node.wait_state(job, "SUCCEEDED")
    assert_swanlab(record(node, job), swanlab_run(services, job))


def test_a_refused_key_is_never_shown(node, services):
    wrong = [{"swanlab": {"api_key_secret": "WRONG"}}, {"comet_ml": {"api_key_secret": "WRONG"}},
             {"clearml": {"api_keys_secret": "WRONG_PAIR"}}]
    job = node.submit(job_spec(*wrong), "refused")
    node.wait_state(job, "SUCCEEDED")
    state = trackers(node, job)
    for name in NAMES:
        assert state[name]["state"] == "STOPPED" and int(state[name]["total_failures"]) == 1, state[name]
        assert "refused <WRONG" in state[name]["last_error"], state[name]
        assert state[f"{name}_archive"]["state"] == "FINISHED"
    for path in [*node.job_dir(job).rglob("*"), node.state_dir.parent / "acceld.log"]:
        if path.is_file():
            data = path.read_bytes()
            for secret in ("wrong-", SWANLAB_KEY, COMET_KEY, CLEARML_KEYS):
                assert secret.encode() not in data, path


def test_a_killed_supervisor_leaves_nothing_behind(node, services):
    job = node.submit(spec_of("killed", epochs=4000), "killed")
    node.wait_step(job, 200)
    system.wait_for(lambda: all(int(t.get("rows", 0)) > 0 for t in trackers(node, job).values()), "all are fed")
    supervisor, = [pid for pid, _, command in system.process_table()
                   if "accel-supervisor" in command and str(node.job_dir(job)) in command]
    os.kill(supervisor, signal.SIGKILL)
    node.wait_state(job, "FAILED")
    assert {t["state"] for t in trackers(node, job, "sync").values()} == {"FINISHED"}
    assert_online(node, job, services, failed=True, is_exact=False)
    own = {"swanlab": SwanLab(), "comet_ml": Comet(), "clearml": ClearML()}
    try:
        assert_archives(node, job, own, failed=True)
    finally:
        for service in own.values():
            service.close()


@pytest.fixture(scope="module")
def offline_job(node):
    """A job with every tracker offline, and what Accelerate is given to log the same."""
    options = [{"swanlab": {"mode": "offline"}}, {"comet_ml": {"online": False}}, {"clearml": {"offline": True}},
               {"tensorboard": {}}]
    job = node.submit(job_spec(*options), "as-accelerate")
    node.wait_state(job, "SUCCEEDED")
    import yaml

    hparams, = (node.job_dir(job) / "trackers" / "tensorboard").rglob("hparams.yml")
    given = {"config": yaml.safe_load(hparams.read_text()), "options": {},
             "rows": [[step, values] for step, values in by_step(record(node, job)).items()]}
    return job, given


def test_swanlab_has_what_accelerate_gives_it(node, offline_job, tmp_path):
    job, given = offline_job
    accelerate_run("swanlab", "blobs", tmp_path, {**given, "options": {"mode": "offline"}},
                   {"SWANLAB_LOG_DIR": str(tmp_path)})
    service = SwanLab()
    try:
        theirs = read("swanlab", next(tmp_path.glob("run-*")), service.url, SWANLAB_KEY)
        ours = read("swanlab", archives(node, job)[0], service.url, SWANLAB_KEY)
    finally:
        service.close()
    assert ours["scalars"] == theirs["scalars"]
    for run in (ours, theirs):
        assert run["config"].pop("FRAMEWORK")
        assert run["start"]["project"] == "blobs"
    # Accelerate's call stores its own option.
    assert theirs["config"].pop("allow_val_change") is True
    assert ours["config"] == theirs["config"]


def test_comet_has_what_accelerate_gives_it(node, offline_job, tmp_path):
    job, given = offline_job
    accelerate_run("comet_ml", "blobs", tmp_path, {**given, "options": {"online": False}},
                   {"COMET_OFFLINE_DIRECTORY": str(tmp_path), "COMET_API_KEY": COMET_KEY,
                    "COMET_LOGGING_CONSOLE": "ERROR", "COMET_ERROR_TRACKING_ENABLE": "0"})
    runs = []
    for archive in (archives(node, job)[1], next(tmp_path.glob("*.zip"))):
        service = Comet()
        read("comet", archive, service.base, COMET_KEY)
        service.close()
        runs.append(next(iter(service.experiments.values())))
    ours, theirs = runs
    points = [comet_series(run) for run in runs]
    assert points[0] == {key: values for key, values in points[1].items() if key in points[0]}
    # What the package adds of the machine and of itself.
    assert all(key.startswith("sys.") or key == "process duration" for key in set(points[1]) - set(points[0]))
    assert ours["parameters"] == {key: value for key, value in theirs["parameters"].items()
                                  if key != "curr_step" and not key.startswith("run_arg_")}
    assert ours["run"]["projectName"] == theirs["run"]["projectName"] == "blobs"


def test_clearml_has_what_accelerate_gives_it(node, offline_job, tmp_path):
    job, given = offline_job
    # The package forks a process to report from, and at times waits for it for ever.
    conf = tmp_path / "clearml.conf"
    conf.write_text("sdk.development.report_use_subprocess: false\n")
    accelerate_run("clearml", "blobs", tmp_path, given,
                   {"CLEARML_OFFLINE_MODE": "1", "CLEARML_CACHE_DIR": str(tmp_path), "CLEARML_CONFIG_FILE": str(conf)})
    service = ClearML()
    try:
        theirs = read("clearml-session", next(pathlib.Path(tmp_path).rglob("offline-*.zip")), service.url, CLEARML_KEYS)
        ours = read("clearml-session", archives(node, job)[2], service.url, CLEARML_KEYS)
    finally:
        service.close()
    assert clearml_read(ours["scalars"]) == {
        title: lines for title, lines in clearml_read(theirs["scalars"]).items() if not title.startswith(":monitor:")}
    assert ours["config"] == theirs["config"]
    assert (ours["project"], ours["name"]) == (theirs["project"], theirs["name"]) == ("blobs", "blobs")


def test_a_node_says_at_submit_what_it_cannot_serve(node):
    wrong = job_spec({"swanlab": {"api_host": "http://10.0.0.1:5000", "id": "a/b"}},
                     {"comet_ml": {"api_key_secret": "NONE", "experiment_key": "short"}},
                     {"clearml": {"api_host": "ftp://x"}}, {"aim": {}}, {"dvclive": {"dir": "../up"}})
    result = node.accelctl("validate", "-", input=json.dumps(wrong), check=False)
    assert result.returncode == 2
    for text in ("the node does not send its secret SWANLAB_API_KEY there", "trackers[0].swanlab.id",
                 "the node has no secret NONE", "32 to 50 letters and digits", '"ftp://x" is not allowed',
                 "it needs the address of an aim server", "trackers[4].dvclive.dir"):
        assert text in result.stderr, (text, result.stderr)
