"""Runs written by the TensorBoard tracker, read back by the tensorboard package and its server."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import pytest
import yaml

import read_run

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build" / "bin"))

CONFIG = {"lr": 0.001, "tiny": 1e-5, "epochs": 3, "amp": False, "optimizer": "adamw", "seed": None, "name": "true"}


class Writer:
    """One process of write_tensorboard_run."""

    def __init__(self, logdir, project="digits"):
        self.process = subprocess.Popen([BIN / "write_tensorboard_run", logdir, project], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, **line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def log(self, step, **values):
        self.send(log=values, step=step, time=1700000000.25 + step)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def write_whole_run(folder):
    writer = Writer(folder)
    writer.send(start=None)
    writer.send(config=CONFIG)
    for step in range(1, 6):
        writer.log(step, loss=1 / step)
    writer.log(6, **{"eval/accuracy": 0.5, "note": {"text": "zwölf *bold*"}, "split": {"a/b": 1.5, "c": 2.5}})
    writer.log(7, odd="nan", high="inf", low=-1e300)
    writer.send(finish="succeeded")
    writer.close()


@pytest.fixture(scope="module")
def logdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trackers")
    write_whole_run(folder)
    return folder / "tensorboard"


def test_scalars_and_sub_runs(logdir):
    runs = read_run.read_runs(logdir)
    assert sorted(runs) == ["digits", "digits/split_a_b", "digits/split_c"]
    scalars = runs["digits"]["scalars"]
    assert [point[0] for point in scalars["loss"]] == [1, 2, 3, 4, 5]
    assert [point[1] for point in scalars["loss"]] == pytest.approx([1 / step for step in range(1, 6)], rel=1e-7)
    assert scalars["loss"][0][2] == 1700000001.25
    assert scalars["eval/accuracy"] == [[6, 0.5, 1700000006.25]]
    assert (scalars["odd"][0][1], scalars["high"][0][1], scalars["low"][0][1]) == ("nan", "inf", "-inf")
    assert runs["digits/split_a_b"]["scalars"] == {"split": [[6, 1.5, 1700000006.25]]}
    assert runs["digits/split_c"]["scalars"] == {"split": [[6, 2.5, 1700000006.25]]}


def test_text(logdir):
    assert read_run.read_runs(logdir)["digits"]["text"] == {"note/text_summary": [[6, "zwölf *bold*"]]}


def test_hparams(logdir):
    hparams = read_run.read_runs(logdir)["digits"]["hparams"]
    expected = {key: value for key, value in CONFIG.items() if value is not None}
    assert hparams["start"] == expected
    assert isinstance(hparams["start"]["amp"], bool)
    assert hparams["status"] == "STATUS_SUCCESS"
    assert hparams["start_time"] <= hparams["end_time"] <= time.time()
    assert "other_tags" not in hparams


def test_hparams_yaml(logdir):
    text = (logdir / "digits" / "hparams.yml").read_text()
    assert yaml.safe_load(text) == CONFIG
    keys = [line.split(":")[0] for line in text.splitlines()]
    assert keys == sorted(CONFIG)


def test_rows_are_whole_while_the_run_goes_on(tmp_path):
    """Each row can be read as soon as Log has returned; a killed writer leaves all of them."""
    writer = Writer(tmp_path)
    writer.send(start=None)
    writer.send(config=CONFIG)
    for step in range(1, 4):
        writer.log(step, loss=step)
        loss = read_run.read_runs(tmp_path)["tensorboard/digits"]["scalars"]["loss"]
        assert [point[0] for point in loss] == list(range(1, step + 1))
    writer.kill()
    run = read_run.read_runs(tmp_path)["tensorboard/digits"]
    assert [point[0] for point in run["scalars"]["loss"]] == [1, 2, 3]
    assert "status" not in run["hparams"]


def test_resumed_run_replaces_what_it_repeats(tmp_path):
    first = Writer(tmp_path)
    first.send(start=None)
    first.send(config=CONFIG)
    for step in range(1, 7):
        first.log(step, loss=step, parts={"x": step})
    first.kill()
    second = Writer(tmp_path)
    second.send(start=4)
    for step in range(4, 9):
        second.log(step, loss=10 * step, parts={"x": 10 * step})
    second.send(finish="failed")
    second.close()
    runs = read_run.read_runs(tmp_path / "tensorboard")
    expected = [[1, 1], [2, 2], [3, 3], [4, 40], [5, 50], [6, 60], [7, 70], [8, 80]]
    assert [point[:2] for point in runs["digits"]["scalars"]["loss"]] == expected
    assert [point[:2] for point in runs["digits/parts_x"]["scalars"]["parts"]] == expected
    assert runs["digits"]["hparams"]["start"]["optimizer"] == "adamw"
    assert runs["digits"]["hparams"]["status"] == "STATUS_FAILURE"


class Server:
    """The tensorboard server on a port of its own choice."""

    def __init__(self, logdir, log, *arguments):
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", "127.0.0.1", "--port", "0",
             "--reload_interval", "1", *arguments],
            stdout=subprocess.DEVNULL, stderr=log.open("w"))
        self.address = self.wait_for(self.find_address)

    def find_address(self):
        found = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
        return found and found.group()

    def wait_for(self, condition):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            value = condition()
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def get(self, path, body=None):
        request = urllib.request.Request(f"{self.address}/data/{path}", headers={"Content-Type": "application/json"},
                                         data=json.dumps(body).encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def session_groups(self):
        statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
        query = {"startIndex": 0, "sliceSize": 10, "allowedStatuses": statuses, "colParams": []}
        return self.get("plugin/hparams/session_groups", query)["sessionGroups"]


@pytest.mark.parametrize("loader", ["true", "false"])
def test_server_shows_the_run(logdir, tmp_path, loader):
    server = Server(logdir, tmp_path / "server.log", "--load_fast", loader)
    try:
        runs = ["digits", "digits/split_a_b", "digits/split_c"]
        server.wait_for(lambda: sorted(server.get("runs")) == runs)
        loss = server.wait_for(lambda: server.get("plugin/scalars/scalars?run=digits&tag=loss"))
        assert [point[1] for point in loss] == [1, 2, 3, 4, 5]
        text = server.get("plugin/text/text?run=digits&tag=note%2Ftext_summary")
        assert "<strong>bold</strong>" in text[0]["text"] or "<em>bold</em>" in text[0]["text"]
        group, = server.wait_for(server.session_groups)
        assert group["hparams"]["amp"] is False
        assert group["hparams"]["optimizer"] == "adamw"
        assert group["hparams"]["lr"] == 0.001
        session, = group["sessions"]
        assert session["status"] == "STATUS_SUCCESS"
        metrics = {(value["name"]["group"], value["name"]["tag"]): value["value"] for value in group["metricValues"]}
        assert metrics["", "eval/accuracy"] == 0.5
        assert metrics["", "loss"] == pytest.approx(0.2)
        assert metrics["split_c", "split"] == 2.5
    finally:
        server.process.terminate()
        server.process.wait(30)
