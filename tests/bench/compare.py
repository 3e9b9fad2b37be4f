"""Compares Accel with the same job as an Accelerate script under torchrun, alternating in one run.

usage: build/venv/oracle/bin/python tests/bench/compare.py [--runs N] [--jobs NAME ...]

Two ranks, one CPU thread each, real MNIST digits or the Jargon File. Prints a Markdown table: medians,
and the median of the pairwise ratios (above 1: Accel is better). Needs deploy/bootstrap and the
environment that tests/run makes.
"""

import argparse
import csv
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ACCEL_BIN_DIR", ROOT / "build/bin"))
PEER = ROOT / "tests/oracle/training/accelerate_peer.py"


def digits(model, batch_size=32, epochs=3, **train):
    return {
        "num_processes": 2,
        "model": model,
        "data": {"train": {"file": "data/mnist.safetensors", "safetensors": {}, **train}, "batch_size": batch_size},
        "loss": {"cross_entropy": {}},
        "optimizer": {"adamw": {"lr": 0.001}},
        "loop": {"num_epochs": epochs, "num_cpu_threads_per_process": 1, "checkpoint_at_end": False},
    }


JOBS = {
    "mlp-64": digits({"mlp": {"layer_sizes": [784, 64, 10]}}, epochs=20),
    "mlp-256": digits({"mlp": {"layer_sizes": [784, 256, 256, 10]}}, epochs=8),
    "mlp-1024": digits({"mlp": {"layer_sizes": [784, 1024, 1024, 10]}}),
    "convnet": digits({"convnet": {"height": 28, "width": 28, "channels": [16, 32], "num_classes": 10}},
                      feature_shape=[1, 28, 28]),
    "gpt": {
        **digits({"gpt": {"num_layers": 2, "num_heads": 4, "embedding_size": 128}}, batch_size=8, epochs=1),
        "loss": {"next_token": {}},
    },
}
JOBS["gpt"]["data"]["train"] = {"file": "data/text.txt", "bytes": {"sequence_length": 128}}


def make_data(folder):
    """The digits as fp32 tensors, and 200 kB of text."""
    rows = numpy.loadtxt(ROOT / "build/datasets/mnist_5k.csv.gz", delimiter=",", dtype=numpy.float32)
    save_file({"features": torch.tensor(rows[:, :-1] / 255.0), "targets": torch.tensor(rows[:, -1]).long()},
              folder / "mnist.safetensors")
    (folder / "text.txt").write_bytes((ROOT / "build/datasets/jargon.txt").read_bytes()[:200_000])


def peak_rss_mib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


class Node:
    """acceld on a Unix socket in a folder of its own."""

    def __init__(self, folder, data):
        self.address = f"unix:{folder}/acceld.sock"
        self.process = subprocess.Popen(
            [BIN / "acceld", "--state_dir", folder, "--listen", self.address, "--metrics_address", "off",
             "--data_root", f"data={data}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (folder / "acceld.json").exists():
            assert self.process.poll() is None
            time.sleep(0.01)

    def accelctl(self, *arguments, **kwargs):
        return subprocess.run([BIN / "accelctl", "--address", self.address, *arguments], check=True, text=True,
                              capture_output=True, **kwargs).stdout

    def run(self, name, spec):
        submitted = time.time()
        self.accelctl("submit", "-", "--id", name, input=json.dumps(spec))
        memory = 0.0
        while True:
            job = json.loads(self.accelctl("-o", "json", "get", name))
            for attempt in job.get("attempts", []):
                memory = max([memory, *(peak_rss_mib(w["pid"]) for w in attempt["workers"])])
            if job["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"):
                assert job["state"] == "SUCCEEDED", job
                break
            time.sleep(0.1)
        rows = list(csv.DictReader(self.accelctl("metrics", "--csv", "--key", "perf/step_seconds", name).splitlines()))
        seconds = [float(row["value"]) for row in rows]
        first = submission_to(rows[0]["time"], submitted)
        return {"steps/s": len(seconds) / sum(seconds), "first step s": first, "rank MiB": memory}

    def close(self):
        memory = peak_rss_mib(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return memory


def submission_to(timestamp, submitted):
    import datetime

    return datetime.datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() - submitted


def run_peer(spec, data, folder):
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps({"job": {"spec": spec, "data": str(data)}}))
    submitted = time.time()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1",
         "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:0", PEER, folder / "job.json", folder],
        check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    result = json.loads((folder / "job/result_0.json").read_text())
    return {"steps/s": result["steps_per_second"], "first step s": result["first_step_time"] - submitted,
            "rank MiB": result["peak_rss_mib"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        data = scratch / "data"
        data.mkdir()
        make_data(data)
        (scratch / "state").mkdir(mode=0o700)
        node = Node(scratch / "state", data)
        print("| job | measure | Accel | Accelerate | ratio |\n| --- | --- | --- | --- | --- |")
        for name in options.jobs:
            pairs = [(node.run(f"{name}-{i}", JOBS[name]), run_peer(JOBS[name], data, scratch / f"{name}-{i}"))
                     for i in range(options.runs)]
            for measure, more_is_better in (("steps/s", True), ("first step s", False), ("rank MiB", False)):
                ours = [a[measure] for a, _ in pairs]
                theirs = [b[measure] for _, b in pairs]
                ratios = [(a / b if more_is_better else b / a) for a, b in zip(ours, theirs)]
                print(f"| {name} | {measure} | {statistics.median(ours):.4g} | {statistics.median(theirs):.4g} "
                      f"| {statistics.median(ratios):.2f} |", flush=True)
        print(f"\nacceld used {node.close():.0f} MiB at most")


if __name__ == "__main__":
    main()
