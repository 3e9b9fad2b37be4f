"""The same job as an Accelerate script with the same tracker: the same keys, steps, values and configuration.

The script trains by itself (training/accelerate_peer.py); what it measures it logs through Accelerate's own tracker.
Both runs are read back with the tracker's package. Losses are those of the same kernels in the same order: equal to
the last bit, except eval/loss, a mean of float64 here and of float32 there, and what TensorBoard keeps, float32.
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
from test_trackers import one, trackers

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
    options = [{"wandb": {"mode": "offline", "id": "ours"}}, {"mlflow": {"run_name": "ours"}},
               {"trackio": {"name": "ours"}}]
    job = node.submit({**SPEC, "tracking": {"project": "same", "config": {"owner": "nobody"}, "trackers": options,
                                            "log_with": ["tensorboard"]}}, "as-accelerate")
    node.wait_state(job, "SUCCEEDED")
    if any(tracker["state"] != "FINISHED" for tracker in trackers(node, job).values()):
        trackers(node, job, "sync")
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


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for key, points in ours.items():
        if key == "eval/loss":
            assert [step for step, _ in points] == [step for step, _ in theirs[key]]
            assert [value for _, value in points] == pytest.approx([value for _, value in theirs[key]], rel=1e-6)
        else:
            assert points == theirs[key], key


def test_mlflow(ours, script, tmp_path, mlflow_server):
    accelerate_run("mlflow", "same", tmp_path, {**script, "options": {"run_name": "theirs"}},
                   {"MLFLOW_TRACKING_URI": mlflow_server.url})
    runs = read("mlflow", mlflow_server.url)
    mine, theirs = one(runs, "ours"), one(runs, "theirs")
    series = [shared({key: [point[:2] for point in points] for key, points in run["metrics"].items()})
              for run in (mine, theirs)]
    assert_same(*series)
    assert series[1] == expected(script)
    assert mine["params"] == theirs["params"]
    assert mine["status"] == theirs["status"] == "FINISHED"


def test_trackio(ours, script, tmp_path, trackio_server):
    accelerate_run("trackio", "same", tmp_path, {**script, "options": {"name": "theirs"}}, {"TRACKIO_DIR": str(tmp_path)})
    mine = one(read("trackio", trackio_server.folder), "ours")
    theirs, = read("trackio", tmp_path)
    assert_same(series_of(mine["logs"], "step"), series_of(theirs["logs"], "step"))
    assert series_of(theirs["logs"], "step") == expected(script)
    config = [{key: value for key, value in run["config"].items() if not key.startswith("_")} for run in (mine, theirs)]
    # Accelerate hands an argument of W&B's on, which becomes an entry.
    assert config[1].pop("allow_val_change") is True
    assert config[0] == config[1]


def series_of(rows, step):
    series = {}
    for row in rows:
        for key, value in row.items():
            if "/" in key:
                series.setdefault(key, []).append([row[step], value])
    return shared(series)


def test_wandb_offline(ours, script, tmp_path, wandb_server):
    accelerate_run("wandb", "same", tmp_path, {**script, "options": {"id": "theirs", "dir": str(tmp_path)}},
                   {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off"})
    series = {}
    for name, folder in (("ours", ours / "wandb"), ("theirs", tmp_path)):
        log, = folder.glob(f"wandb/offline-run-*/run-{name}.wandb")
        assert read("wandb", log, wandb_server.url, KEY)["marked"]
        series[name] = series_of(wandb_server.rows(name), "_step")
    assert_same(series["ours"], series["theirs"])
    config = {name: {key: value for key, value in wandb_server.runs[name]["config"].items() if key != "_wandb"}
              for name in series}
    assert config["ours"] == config["theirs"]


def test_tensorboard(ours, script, tmp_path):
    accelerate_run("tensorboard", "same", tmp_path, script, {})
    series = {}
    for name, folder in (("ours", ours / "tensorboard"), ("theirs", tmp_path)):
        result = subprocess.run([sys.executable, ROOT / "tests" / "oracle" / "tensorboard" / "read_run.py", folder],
                                check=True, capture_output=True, text=True, timeout=120)
        scalars = json.loads(result.stdout)["same"]["scalars"]
        series[name] = shared({tag: [point[:2] for point in points] for tag, points in scalars.items()})
    assert_same(series["ours"], series["theirs"])
