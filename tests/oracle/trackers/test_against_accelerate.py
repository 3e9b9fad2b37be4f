"""The same job as an Accelerate script with the same tracker: the same keys, steps, values and configuration.

The script trains by itself (training/accelerate_peer.py); what it measures it logs through Accelerate's own tracker.
Both runs are read back with the tracker's package. Losses are those of the same kernels in the same order: equal to
the last bit, except where a tracker itself keeps less (TensorBoard's float32).
"""

import json
import os
import subprocess
import sys

import pytest
import torch
import yaml
from conftest import KEY, ROOT, TRACKERS, accelerate_run, read
from safetensors.torch import save_file
from test_trackers import one

pytestmark = pytest.mark.skipif(not TRACKERS.exists(), reason="tests/run installs the trackers")

EPOCHS = 3
SPEC = {
    "num_processes": 1,
    "device": "cpu",
    "model": {"mlp": {"layer_sizes": [8, 16, 3]}},
    "data": {"train": {"file": "data/train.safetensors", "safetensors": {}},
             "evaluation": {"file": "data/evaluation.safetensors", "safetensors": {}}, "batch_size": 10},
    "loss": {"cross_entropy": {}},
    "optimizer": {"adamw": {"lr": 0.01}},
    "schedule": {"linear": {"warmup_steps": 4}},
    "loop": {"num_epochs": EPOCHS, "seed": 11, "num_cpu_threads_per_process": 1, "evaluate_every_epochs": 1},
}
# What a script does not measure.
OURS_ALONE = ("perf/", "train/epoch")


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    generator = torch.Generator().manual_seed(3)
    for name, samples in (("train", 130), ("evaluation", 53)):
        features = torch.randn(samples, 8, generator=generator)
        save_file({"features": features, "targets": features[:, :3].argmax(1)}, folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def ours(node):
    """The job with every tracker, and its record."""
    trackers = [{"wandb": {"mode": "offline", "id": "ours"}}, {"mlflow": {"run_name": "ours"}},
                {"trackio": {"name": "ours"}}]
    job = node.submit({**SPEC, "tracking": {"project": "same", "config": {"owner": "nobody"}, "trackers": trackers,
                                            "log_with": ["tensorboard"]}}, "as-accelerate")
    node.wait_state(job, "SUCCEEDED")
    return node.job_dir(job) / "trackers"


@pytest.fixture(scope="module")
def script(data_root, tmp_path_factory, ours):
    """What the script logs: the job's configuration and what it has measured."""
    out = tmp_path_factory.mktemp("peer")
    (out / "jobs.json").write_text(json.dumps({"job": {"spec": SPEC, "data": str(data_root)}}))
    subprocess.run([sys.executable, ROOT / "tests" / "oracle" / "training" / "accelerate_peer.py", out / "jobs.json", out],
                   check=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"})
    result = json.loads((out / "job" / "result_0.json").read_text())
    rows = [[step, {"train/loss": loss, "train/learning_rate": rate}]
            for step, (loss, rate) in enumerate(zip(result["losses"], result["rates"]), 1)]
    steps_of_epoch = len(rows) // EPOCHS
    for epoch, evaluation in enumerate(result["evaluations"], 1):
        rows[epoch * steps_of_epoch - 1][1].update(evaluation)
    config = yaml.safe_load((ours / "tensorboard" / "same" / "hparams.yml").read_text())
    return {"config": config, "rows": rows, "options": {}}


def shared(series):
    return {key: values for key, values in series.items() if not key.startswith(OURS_ALONE)}


def expected(script):
    series = {}
    for step, values in script["rows"]:
        for key, value in values.items():
            series.setdefault(key, []).append([step, value])
    return series


def test_mlflow(ours, script, tmp_path, mlflow_server):
    accelerate_run("mlflow", "same", tmp_path, {**script, "options": {"run_name": "theirs"}},
                   {"MLFLOW_TRACKING_URI": mlflow_server.url})
    runs = read("mlflow", mlflow_server.url)
    mine, theirs = one(runs, "ours"), one(runs, "theirs")
    series = {key: [point[:2] for point in points] for key, points in mine["metrics"].items()}
    assert shared(series) == {key: [p[:2] for p in points] for key, points in theirs["metrics"].items()} == expected(script)
    assert mine["params"] == theirs["params"]
    assert mine["status"] == theirs["status"] == "FINISHED" and mine["experiment"] == theirs["experiment"] == "same"


def test_trackio(ours, script, tmp_path, trackio_server):
    accelerate_run("trackio", "same", tmp_path, {**script, "options": {"name": "theirs"}}, {"TRACKIO_DIR": str(tmp_path)})
    mine = one(read("trackio", trackio_server.folder), "ours")
    theirs, = read("trackio", tmp_path)
    assert series_of(mine["logs"]) == series_of(theirs["logs"]) == expected(script)
    config = {key: value for key, value in theirs["config"].items() if not key.startswith("_")}
    # Accelerate hands an argument of W&B's on, which becomes an entry.
    assert config.pop("allow_val_change") is True
    assert {key: value for key, value in mine["config"].items() if not key.startswith("_")} == config


def series_of(logs):
    series = {}
    for row in logs:
        for key, value in row.items():
            if "/" in key:
                series.setdefault(key, []).append([row["step"], value])
    return shared(series)


def test_wandb_offline(ours, script, tmp_path, wandb_server):
    accelerate_run("wandb", "same", tmp_path, {**script, "options": {"id": "theirs", "dir": str(tmp_path)}},
                   {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off"})
    uploaded = {}
    for name, folder in (("ours", ours / "wandb"), ("theirs", tmp_path)):
        log, = folder.glob(f"wandb/offline-run-*/run-{name}.wandb")
        assert read("wandb", log, wandb_server.url, KEY)["marked"]
        uploaded[name] = wandb_server.runs[name]
    rows = {name: [[row["_step"], shared({k: v for k, v in row.items() if not k.startswith("_")})]
                   for row in wandb_server.rows(name)] for name in uploaded}
    assert rows["ours"] == rows["theirs"] == script["rows"]
    config = {name: {k: v for k, v in run["config"].items() if k != "_wandb"} for name, run in uploaded.items()}
    assert config["ours"] == config["theirs"]
    summary = {name: shared({k: v for k, v in run["summary"].items() if not k.startswith("_")})
               for name, run in uploaded.items()}
    assert summary["ours"] == summary["theirs"]
    assert uploaded["ours"]["exitcode"] == uploaded["theirs"]["exitcode"] == 0


def test_tensorboard(ours, script, tmp_path):
    accelerate_run("tensorboard", "same", tmp_path, script, {})
    runs = {}
    for name, folder in (("ours", ours / "tensorboard"), ("theirs", tmp_path)):
        result = subprocess.run([sys.executable, ROOT / "tests" / "oracle" / "tensorboard" / "read_run.py", folder],
                                check=True, capture_output=True, text=True, timeout=120)
        runs[name] = json.loads(result.stdout)
    series = {name: shared({tag: [point[:2] for point in points] for tag, points in run["same"]["scalars"].items()})
              for name, run in runs.items()}
    assert series["ours"] == series["theirs"]
    assert {tag: [step for step, _ in points] for tag, points in series["ours"].items()} == {
        tag: [step for step, _ in points] for tag, points in expected(script).items()}
    theirs, = tmp_path.glob("same/*/hparams.yml")
    assert yaml.safe_load(theirs.read_text()) == script["config"]
    # Accelerate's hyper-parameters are a run of their own without a metric, ours belong to the run: core/README.md.
    start, = [run["hparams"]["start"] for run in runs["theirs"].values() if "start" in run["hparams"]]
    assert {name: float(value) if isinstance(value, bool) else value for name, value in
            runs["ours"]["same"]["hparams"]["start"].items()} == {
        name: float(value) if isinstance(value, bool) else value for name, value in start.items()}
