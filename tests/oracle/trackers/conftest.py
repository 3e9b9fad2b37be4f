"""A node, trackers' servers and readers for the suites in this folder."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

from fault_proxy import FaultProxy
from wandb_server import KEY, WandBServer

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
TRACKERS = ROOT / "build" / "venv" / "trackers" / "bin" / "python"
TRACKIO_TOKEN = "a-token-of-trackio"
MLFLOW_TOKEN = "a-token-of-mlflow"

_spec = importlib.util.spec_from_file_location("system_conftest", ROOT / "tests" / "system" / "conftest.py")
system = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(system)
data_root = system.data_root
api = system.api


def read(*arguments):
    """What the tracker's own package reads."""
    result = subprocess.run([TRACKERS, HERE / "read.py", *map(str, arguments)], capture_output=True, text=True,
                            timeout=180, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def accelerate_run(tracker, project, folder, given, environment):
    """The same rows and configuration through Accelerate's tracker."""
    site = next(TRACKERS.parent.parent.glob("lib/python3*/site-packages"))
    result = subprocess.run([sys.executable, HERE / "accelerate_run.py", tracker, project, folder],
                            input=json.dumps(given), capture_output=True, text=True, timeout=240, cwd=folder,
                            env={**os.environ, "ACCEL_TRACKERS_SITE": str(site), "HOME": str(folder), **environment})
    assert result.returncode == 0, result.stderr


class Server:
    """A real server of a package."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.port = kind, folder, 0
        self.start()

    def start(self):
        environment = {**os.environ, "TRACKIO_WRITE_TOKEN": TRACKIO_TOKEN, "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen([TRACKERS, HERE / "serve.py", self.kind, self.folder, str(self.port)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory):
    server = Server("mlflow", tmp_path_factory.mktemp("mlflow"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def trackio_server(tmp_path_factory):
    server = Server("trackio", tmp_path_factory.mktemp("trackio"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def wandb_server():
    server = WandBServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def proxies(mlflow_server, trackio_server, wandb_server):
    """A proxy in front of each server, by tracker."""
    made = {"mlflow": FaultProxy(mlflow_server.url), "trackio": FaultProxy(trackio_server.url),
            "wandb": FaultProxy(wandb_server.url)}
    yield made
    for proxy in made.values():
        proxy.close()


@pytest.fixture(scope="module")
def secrets_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secrets") / "secrets"
    path.touch(mode=0o600)
    path.write_text(f"# keys of the tests\nWANDB_API_KEY={KEY}\nTRACKIO_WRITE_TOKEN={TRACKIO_TOKEN}\n"
                    f"MLFLOW_TRACKING_TOKEN={MLFLOW_TOKEN}\nWRONG_KEY={'f' * 40}\n")
    return path


@pytest.fixture(scope="module")
def node(tmp_path_factory, data_root, secrets_file, proxies):
    state_dir = tmp_path_factory.mktemp("node") / "state"
    state_dir.mkdir(mode=0o700)
    daemon = system.Daemon(state_dir, data_root, "--secrets_file", secrets_file,
                           "--tracker_env", f"MLFLOW_TRACKING_URI={proxies['mlflow'].url}",
                           "--tracker_env", f"WANDB_BASE_URL={proxies['wandb'].url}",
                           "--tracker_env", f"TRACKIO_SERVER_URL={proxies['trackio'].url}").start()
    yield daemon
    daemon.close()
