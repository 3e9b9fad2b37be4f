"""Trackers without their packages: one's own by HTTP and as a plug-in, and what a node does about trackers at all."""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import threading

import pytest

from conftest import BIN, ROOT, Daemon, blobs_spec, process_table, wait_for

EXAMPLE = ROOT / "deploy" / "examples" / "tracker" / "lines_tracker.c"


class LineServer(http.server.ThreadingHTTPServer):
    """Takes POSTs of JSON lines; answers with what `plan` says while there is something in it."""

    daemon_threads = True

    def __init__(self, tls=None):
        self.lines, self.headers, self.plan = [], [], []
        super().__init__(("127.0.0.1", 0), LineHandler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}/in"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that does not trust the certificate closes its connection."""

    def events(self, job, event):
        return [line for line in self.lines if line["job"] == job and line["event"] == event]


class LineHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Quiet."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.plan.pop(0) if self.server.plan else 200
        if status == 200:
            self.server.headers.append(dict(self.headers))
            self.server.lines += [json.loads(line) for line in body.splitlines()]
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def build_plugin(folder, source=EXAMPLE, *flags):
    """Compiles a plug-in; returns the daemon's flag for it."""
    library = folder / (pathlib.Path(source).stem + "".join(flags) + ".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags,
                    "-I", ROOT / "core" / "tracking" / "plugin", "-o", library, source], check=True)
    return f"{library}@sha256:{hashlib.sha256(library.read_bytes()).hexdigest()}"


@pytest.fixture(scope="module")
def line_server():
    server = LineServer()
    yield server
    server.shutdown()
    server.server_close()


# Dies at step 5 of its first process, hangs or refuses where an option says so.
ODD_TRACKER = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "accel_tracker.h"
struct accel_tracker { FILE* file; int dies; };
static int32_t start(const accel_run* run, accel_tracker** tracker, accel_error error) {
  static struct accel_tracker made;
  char path[4096];
  snprintf(path, sizeof path, "%s/calls", run->folder);
  made.dies = access(path, F_OK) != 0;
  made.file = fopen(path, "a");
  setlinebuf(made.file);
  for (size_t i = 0; i < run->option_count; ++i) {
    if (strcmp(run->options[i].value, "refuse") != 0) continue;
    snprintf(error.text, error.size, "the key %s is refused", run->secret);
    return ACCEL_REFUSED;
  }
  fprintf(made.file, "start %lld\n", run->resume_step ? (long long)*run->resume_step : -1LL);
  *tracker = &made;
  return ACCEL_OK;
}
static int32_t config(accel_tracker* tracker, const accel_value* values, size_t count, accel_error error) {
  (void)error; (void)values;
  fprintf(tracker->file, "config %d\n", count > 10);
  return ACCEL_OK;
}
static int32_t log_rows(accel_tracker* tracker, const accel_row* rows, size_t count, accel_error error) {
  (void)error;
  for (size_t i = 0; i < count; ++i) {
    if (tracker->dies && rows[i].step == 5) abort();
    fprintf(tracker->file, "row %lld\n", (long long)rows[i].sequence);
  }
  return ACCEL_OK;
}
static int32_t finish(accel_tracker* tracker, int32_t outcome, accel_error error) {
  (void)error;
  fprintf(tracker->file, "finish %d\n", outcome);
  return ACCEL_OK;
}
const accel_tracker_plugin* accel_tracker_get_plugin(void) {
  static const accel_tracker_plugin plugin = {
      .abi_version = ACCEL_TRACKER_ABI_VERSION, .name = NAME, .requires_logging_directory = ACCEL_YES, .start = start,
      .store_init_configuration = config, .log = log_rows, .finish = FINISH};
  return &plugin;
}
"""


@pytest.fixture(scope="module")
def odd_source(tmp_path_factory):
    source = tmp_path_factory.mktemp("odd") / "odd_tracker.c"
    source.write_text(ODD_TRACKER)
    return source


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    path = tmp_path_factory.mktemp("secrets") / "secrets"
    path.touch(mode=0o600)
    path.write_text("web=token-of-web\nodd=token-of-odd\n")
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory, data_root, line_server, odd_source, secrets):
    folder = tmp_path_factory.mktemp("node")
    state_dir = folder / "state"
    state_dir.mkdir(mode=0o700)
    odd = build_plugin(folder, odd_source, '-DNAME="odd"', "-DFINISH=finish")
    daemon = Daemon(state_dir, data_root, "--secrets_file", secrets, "--custom_tracker", f"web={line_server.url}",
                    "--tracker_plugin", build_plugin(folder), "--tracker_plugin", odd).start()
    yield daemon
    daemon.close()


def spec_with(*trackers, epochs=2, **tracking):
    return {**blobs_spec(ranks=1, epochs=epochs, evaluate_every_epochs=1),
            "tracking": {"config": {"owner": "nobody"}, "trackers": list(trackers), **tracking}}


def rows_of(node, job):
    """{sequence: (step, values)} of the job's record."""
    rows = [json.loads(line) for line in node.accelctl("-o", "json", "metrics", job).stdout.splitlines()]
    return {int(row["sequence"]): (int(row.get("step", 0)), {k: float(v["number"]) for k, v in row["values"].items()})
            for row in rows}


def trackers_of(node, job, *arguments, check=True):
    result = node.accelctl("-o", "json", "trackers", *arguments, job, check=check)
    return {tracker["name"]: tracker for tracker in json.loads(result.stdout)["trackers"]}


def events_of(node, job):
    return node.accelctl("get", job, "-o", "json").stdout


def test_own_trackers_get_each_row_of_the_record(node, line_server):
    job = node.submit(spec_with({"custom": {"name": "lines", "options": {"file": "mine.jsonl"}}},
                                log_with=["web"]), "own")
    node.wait_state(job, "SUCCEEDED")
    rows = rows_of(node, job)
    assert len(rows) > 30
    sent = {line["sequence"]: (line["step"], line["values"]) for line in line_server.events(job, "log")}
    assert sent == rows and len(line_server.events(job, "log")) == len(rows)
    assert [line["event"] for line in line_server.lines if line["job"] == job][:2] == ["start", "config"]
    config = line_server.events(job, "config")[0]["values"]
    assert config["owner"] == "nobody" and config["optimizer.adamw.lr"] == 0.01
    assert line_server.events(job, "finish")[0]["outcome"] == "succeeded"
    assert all(headers["Authorization"] == "Bearer token-of-web" for headers in line_server.headers)

    path = node.job_dir(job) / "trackers" / "lines" / "mine.jsonl"
    first, *lines, last = map(json.loads, path.read_text().splitlines())
    assert first["config"]["owner"] == "nobody" and last == {"outcome": 0}
    assert {line["sequence"]: (line["step"], line["values"]) for line in lines} == rows
    assert path.parent.stat().st_mode & 0o77 == 0

    assert {t["state"] for t in trackers_of(node, job).values()} == {"FINISHED"}
    table = node.accelctl("trackers", job).stdout
    assert "web" in table and "FINISHED" in table and str(path.parent) in table
    assert set(node.json("node")["custom_trackers"]) == {"web", "lines", "odd"}


def test_a_plugin_that_crashes_is_started_again_and_the_job_goes_on(node):
    job = node.submit(spec_with(log_with=["odd"]), "crash")
    node.wait_state(job, "SUCCEEDED")
    state = trackers_of(node, job)["odd"]
    assert state["state"] == "FINISHED" and int(state["total_failures"]) >= 1
    assert "exited on signal 6" in state["last_error"]
    calls = (node.job_dir(job) / "trackers" / "odd" / "calls").read_text().splitlines()
    assert calls[:2] == ["start -1", "config 1"]
    assert calls.count("config 1") == 2 and calls[-1] == "finish 0"
    # All rows in the end; those of the call that died come again.
    assert {int(c.split()[1]) for c in calls if c.startswith("row")} == set(rows_of(node, job))
    assert not [c for _, _, c in process_table() if "--tracker_plugin_host" in c and str(node.state_dir) in c]


def test_a_plugin_that_refuses_stops_and_its_secret_is_not_shown(node, secrets):
    job = node.submit(spec_with({"custom": {"name": "odd", "options": {"do": "refuse"}}}), "refusing")
    node.wait_state(job, "SUCCEEDED")
    state = trackers_of(node, job)["odd"]
    assert state["state"] == "STOPPED" and int(state["total_failures"]) == 1
    assert "the key <odd> is refused" in state["last_error"]
    assert node.accelctl("trackers", "sync", job, check=False).returncode != 0
    for path in node.job_dir(job).rglob("*"):
        assert not path.is_file() or b"token-of-odd" not in path.read_bytes(), path


@pytest.mark.parametrize("flags, said", [
    (('-DNAME=""', "-DFINISH=NULL", "-Wno-unused-function"), "lacks name, finish"),
    (('-DNAME="wandb"', "-DFINISH=finish"), 'the name "wandb" is taken'),
    (('-DNAME="web"', "-DFINISH=finish"), 'the name "web" is registered already'),
])
def test_plugins_that_cannot_be_registered(tmp_path, odd_source, flags, said):
    plugin = build_plugin(tmp_path, odd_source, *flags)
    assert said in refused_start(tmp_path, "--custom_tracker", "web=http://127.0.0.1:9/", "--tracker_plugin", plugin)


def refused_start(tmp_path, *flags):
    result = subprocess.run([BIN / "acceld", "--state_dir", tmp_path / "state", "--metrics_address", "off", *flags],
                            capture_output=True, text=True, timeout=30)
    assert result.returncode != 0
    return result.stderr


def test_a_plugin_is_what_was_registered_or_is_not_loaded(tmp_path, data_root, odd_source):
    plugin = build_plugin(tmp_path)
    library = pathlib.Path(plugin.split("@")[0])
    assert "was registered" in refused_start(tmp_path, "--tracker_plugin", f"{library}@sha256:{'0' * 64}")
    assert "must be /path@sha256:" in refused_start(tmp_path, "--tracker_plugin", str(library))
    (tmp_path / "node").mkdir()
    state_dir = tmp_path / "node" / "state"
    state_dir.mkdir(mode=0o700)
    daemon = Daemon(state_dir, data_root, "--tracker_plugin", plugin).start()
    good = library.read_bytes()
    library.write_bytes(good + b"x")
    daemon.submit(spec_with(log_with=["lines"]), "changed")
    daemon.wait_state("changed", "SUCCEEDED")
    state = trackers_of(daemon, "changed")["lines"]
    assert state["state"] == "STOPPED" and "was registered" in state["last_error"]
    # What the operator puts right is sent later.
    library.write_bytes(good)
    assert trackers_of(daemon, "changed", "sync")["lines"]["state"] == "FINISHED"
    assert (daemon.job_dir("changed") / "trackers" / "lines" / "rows.jsonl").read_text().count("sequence") == len(
        rows_of(daemon, "changed"))
    daemon.close()


def test_settings_that_cannot_be(tmp_path):
    for flags, said in [(("--custom_tracker", "all=http://x"), 'the name "all" is taken'),
                        (("--custom_tracker", "x=ftp://x"), "must start with http(s)://"),
                        (("--tracker_env", "WANDB_API_KEY=x"), "belong into --secrets_file"),
                        (("--tracker_env", "MLFLOW_TAGS=[]"), "a JSON object"),
                        (("--tracker_ca_file", "/nowhere"), "cannot be read")]:
        assert said in refused_start(tmp_path, *flags)


@pytest.mark.parametrize("tracking, said", [
    ({"log_with": ["excel"]}, '"excel" is not allowed; allowed: all, tensorboard'),
    ({"trackers": [{"excel": {}}]}, "excel"),
    ({"trackers": [{"tensorboard": {"colour": 1}}]}, "colour"),
    ({"project": "../../etc"}, "tracking.project"),
    ({"config": {"deep": {"er": 1}}}, "tracking.config"),
    ({"trackers": [{"custom": {"name": "unknown"}}]}, 'no tracker "unknown" is registered'),
    ({"trackers": [{"custom": {"name": "web"}}, {"custom": {"name": "web"}}]}, "given already"),
])
def test_what_a_job_may_not_ask_for(node, tracking, said):
    result = node.accelctl("validate", "-", input=json.dumps({**blobs_spec(), "tracking": tracking}), check=False)
    assert result.returncode == 2 and said in result.stderr, result.stderr


def test_numbers_that_json_does_not_have(node, line_server):
    spec = {**spec_with(log_with=["web", "lines"]), "optimizer": {"sgd": {"lr": 1e30}}}
    job = node.submit(spec, "nan")
    node.wait_state(job, "SUCCEEDED", "FAILED")
    words = {"NaN", "Infinity", "-Infinity"}
    sent = [v for line in line_server.events(job, "log") for v in line["values"].values() if isinstance(v, str)]
    assert sent and set(sent) <= words
    lines = (node.job_dir(job) / "trackers" / "lines" / "rows.jsonl").read_text().splitlines()
    assert sent == [v for line in lines if "sequence" in line for v in json.loads(line)["values"].values()
                    if isinstance(v, str)]


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out",
                    folder / "cert.pem"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_certificates_are_verified(tmp_path, data_root):
    server = LineServer(certificate(tmp_path))
    flags = ("--custom_tracker", f"web={server.url}")
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    daemon = Daemon(state_dir, data_root, *flags).start()
    daemon.submit(spec_with(log_with=["web"]), "tls")
    daemon.wait_state("tls", "SUCCEEDED")
    state = trackers_of(daemon, "tls")["web"]
    assert state["state"] == "FAILING" and "certificate" in state["last_error"].lower()
    assert not server.lines
    assert daemon.terminate() == 0
    # The operator trusts its authority: what is left is sent.
    daemon.extra += ["--tracker_ca_file", tmp_path / "cert.pem"]
    daemon.start()
    assert trackers_of(daemon, "tls", "sync")["web"]["state"] == "FINISHED"
    assert len(server.events("tls", "log")) == len(rows_of(daemon, "tls"))
    daemon.close()
    server.shutdown()
    server.server_close()


def test_a_server_that_fails_for_a_while_and_a_supervisor_that_is_killed(node, line_server):
    line_server.plan[:] = [500, 429, 503]
    job = node.submit(spec_with(epochs=4000, log_with=["web", "lines"]), "faults")
    node.wait_step(job, 100)
    wait_for(lambda: len(line_server.events(job, "log")) > 0, "rows arrive")
    supervisor, = [pid for pid, _, command in process_table()
                   if "accel-supervisor" in command and command.rstrip().endswith(str(node.job_dir(job)))]
    os.kill(supervisor, signal.SIGKILL)
    node.wait_state(job, "FAILED")
    wait_for(lambda: not [c for _, _, c in process_table() if "--tracker_plugin_host" in c and "lines" in c],
             "the plug-in's process has ended")
    assert {t["state"] for t in trackers_of(node, job, "sync").values()} == {"FINISHED"}
    rows = rows_of(node, job)
    lines = [json.loads(line) for line in (node.job_dir(job) / "trackers/lines/rows.jsonl").read_text().splitlines()]
    assert [line["sequence"] for line in lines if "sequence" in line] == list(rows)
    assert lines[-1] == {"outcome": 1}
    # By HTTP at least once; the sequence tells.
    assert sorted({line["sequence"] for line in line_server.events(job, "log")}) == list(rows)
    assert line_server.events(job, "finish")[-1]["outcome"] == "failed"


def test_a_full_disk_fails_no_job_and_loses_no_row(tmp_path, data_root):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a small file system needs root")
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    daemon = Daemon(state_dir, data_root, "--tracker_plugin", build_plugin(tmp_path), "--max_ranks", "1",
                    "--max_world_size", "1", inside=("unshare", "--mount")).start()

    def inside(*command):
        subprocess.run(["nsenter", "-t", str(daemon.process.pid), "-m", *map(str, command)], check=True)

    # Waiting for its turn while its folder is made small.
    daemon.submit(blobs_spec(ranks=1, epochs=1000000), "blocker")
    daemon.wait_step("blocker", 1)
    names = ["tensorboard", "lines", "trackio", "wandb"]
    daemon.submit(spec_with({"wandb": {"mode": "offline"}}, epochs=80, log_with=names), "full")
    small = daemon.job_dir("full") / "trackers"
    small.mkdir(parents=True, mode=0o700, exist_ok=True)
    inside("mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", small)
    daemon.accelctl("cancel", "blocker")
    daemon.wait_state("full", "SUCCEEDED")
    states = trackers_of(daemon, "full")
    assert set(states) == set(names)
    for state in states.values():
        assert state["state"] == "FAILING", state
        assert "space" in state["last_error"] or "full" in state["last_error"], state
    inside("mount", "-o", "remount,size=64m", small)
    assert {t["state"] for t in trackers_of(daemon, "full", "sync").values()} == {"FINISHED"}
    rows = rows_of(daemon, "full")
    seen = pathlib.Path(f"/proc/{daemon.process.pid}/root{small}")
    lines = [json.loads(line) for line in (seen / "lines" / "rows.jsonl").read_text().splitlines()]
    assert [line["sequence"] for line in lines if "sequence" in line] == list(rows)
    daemon.close()
