"""Drives the real binaries, black box: a daemon on a state folder of its own, accelctl, gRPC."""

import csv
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import grpc
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build" / "bin"))
DATASETS = ROOT / "build" / "datasets"
PYTHON_SITE = next(pathlib.Path(ROOT / "build" / "venv" / "torch" / "lib").glob("python3*")) / "site-packages"


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    """The API's Python modules, generated from proto/."""
    from grpc_tools import protoc

    out = tmp_path_factory.mktemp("api")
    protos = sorted(str(p.relative_to(ROOT / "proto")) for p in (ROOT / "proto/accel/v1").glob("*.proto"))
    arguments = ["protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}", f"--grpc_python_out={out}", *protos]
    arguments.insert(1, f"-I{pathlib.Path(protoc.__file__).parent / '_proto'}")
    assert protoc.main(arguments) == 0
    sys.path.insert(0, str(out))
    from accel.v1 import checkpoint_pb2, job_pb2, node_pb2, telemetry_pb2, training_pb2
    from accel.v1 import checkpoint_pb2_grpc, job_pb2_grpc, node_pb2_grpc, profile_pb2, profile_pb2_grpc
    from accel.v1 import telemetry_pb2_grpc

    class Api:
        pass

    for module in (checkpoint_pb2, job_pb2, node_pb2, telemetry_pb2, training_pb2, checkpoint_pb2_grpc,
                   job_pb2_grpc, node_pb2_grpc, profile_pb2, profile_pb2_grpc, telemetry_pb2_grpc):
        for name, value in vars(module).items():
            if not name.startswith("_"):
                setattr(Api, name, value)
    return Api


def wait_for(condition, what, seconds=60):
    """Polls until condition() is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


def process_table():
    """(pid, parent, command line) of every process."""
    table = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if stat[0] != "Z":
            table.append((int(entry.name), int(stat[1]), command))
    return table


class Daemon:
    """One acceld with its state folder."""

    def __init__(self, state_dir, data_root, *extra, inside=()):
        """`inside`: a command that runs the rest of its line elsewhere, as in a network namespace."""
        self.inside = list(inside)
        self.state_dir = pathlib.Path(state_dir)
        self.data_root = pathlib.Path(data_root)
        self.extra = list(extra)
        self.process = None

    def start(self):
        info_file = self.state_dir / "acceld.json"
        info_file.unlink(missing_ok=True)
        self.log = open(self.state_dir.parent / "acceld.log", "ab")
        self.process = subprocess.Popen(
            [*self.inside, BIN / "acceld", "--state_dir", self.state_dir, "--listen", f"unix:{self.state_dir}/acceld.sock",
             "--listen", "127.0.0.1:0", "--metrics_address", "127.0.0.1:0",
             "--data_root", f"data={self.data_root}", "--data_root", f"datasets={DATASETS}", *self.extra],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

        def ready():
            assert self.process.poll() is None, self.log_text()
            return info_file.exists()

        wait_for(ready, "acceld serves", 30)
        self.info = json.loads(info_file.read_text())
        return self

    def log_text(self):
        return (self.state_dir.parent / "acceld.log").read_text(errors="replace")

    @property
    def socket_address(self):
        return f"unix:{self.state_dir}/acceld.sock"

    @property
    def tcp_address(self):
        return next(a for a in self.info["listen_addresses"] if a.startswith("127.0.0.1:"))

    @property
    def metrics_url(self):
        return f"http://{self.info['metrics_address']}/metrics"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)

    def accelctl(self, *arguments, check=True, **kwargs):
        result = subprocess.run(
            [BIN / "accelctl", "--address", self.socket_address, *map(str, arguments)],
            capture_output=True, text=True, timeout=kwargs.pop("timeout", 240), **kwargs)
        if check:
            assert result.returncode == 0, (arguments, result.returncode, result.stdout, result.stderr)
        return result

    def json(self, *arguments):
        return json.loads(self.accelctl("-o", "json", *arguments).stdout)

    def job(self, job_id):
        return self.json("get", job_id)

    def job_dir(self, job_id):
        return self.state_dir / "jobs" / job_id

    def submit(self, spec, job_id):
        self.accelctl("submit", "-", "--id", job_id, input=yaml.safe_dump(spec))
        return job_id

    def wait_state(self, job_id, *states, seconds=120):
        terminal = {"SUCCEEDED", "FAILED", "CANCELLED"}

        def reached():
            job = self.job(job_id)
            assert job["state"] in states or job["state"] not in terminal, job
            return job if job["state"] in states else None

        return wait_for(reached, f"{job_id} is {states}", seconds)

    def wait_step(self, job_id, step, seconds=60):
        return wait_for(lambda: int(self.job(job_id).get("progress", {}).get("step", 0)) >= step,
                        f"{job_id} is at step {step}", seconds)

    def processes(self):
        """Processes that belong to this state folder, and their children."""
        table = process_table()
        mine = {pid for pid, _, command in table if str(self.state_dir) in command and "accelctl" not in command}
        grown = True
        while grown:
            children = {pid for pid, parent, _ in table if parent in mine} - mine
            mine |= children
            grown = bool(children)
        return mine

    def close(self):
        if self.process.poll() is None:
            for job in self.json("list").get("jobs", []):
                if job["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED"):
                    self.accelctl("cancel", job["name"], "--grace", "0", check=False)
            wait_for(lambda: self.processes() <= {self.process.pid}, "all processes of jobs have ended", 30)
            assert self.terminate() == 0, self.log_text()
        self.log.close()
        assert not self.processes()


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    """A folder with small data files: 200 rows of 8 features and a class of 0 to 2."""
    root = tmp_path_factory.mktemp("data")
    source = random.Random(7)
    rows = []
    for _ in range(200):
        label = source.randrange(3)
        rows.append([round(source.gauss(label, 1.0), 4) for _ in range(8)] + [label])
    with open(root / "blobs.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    with gzip.open(root / "blobs.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows(rows)
    return root


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, data_root):
    state_dir = tmp_path_factory.mktemp("node") / "state"
    state_dir.mkdir(mode=0o700)
    daemon = Daemon(state_dir, data_root).start()
    yield daemon
    daemon.close()


@pytest.fixture
def own_daemon(tmp_path, data_root):
    """A daemon that the test may kill and start again."""
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    daemon = Daemon(state_dir, data_root).start()
    yield daemon
    if daemon.process.poll() is not None:
        daemon.start()
    daemon.close()


@pytest.fixture
def channel(daemon):
    with grpc.insecure_channel(daemon.tcp_address) as channel:
        yield channel


def blobs_spec(ranks=2, epochs=2, **loop):
    """A job of a few seconds on the data of data_root."""
    return {
        "num_processes": ranks,
        "model": {"mlp": {"layer_sizes": [8, 16, 3]}},
        "data": {
            "train": {"file": "data/blobs.csv", "csv": {}},
            "split": {"evaluation_fraction": 0.2},
            "batch_size": 10,
        },
        "loss": {"cross_entropy": {}},
        "optimizer": {"adamw": {"lr": 0.01}},
        "loop": {"num_epochs": epochs, "num_cpu_threads_per_process": 1, **loop},
    }
