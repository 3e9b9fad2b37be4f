"""Emulated fp16 through the daemon: the scaler in metrics, Prometheus and checkpoints; schedules that go by a metric."""

import json
import os
import pathlib

import safetensors.torch
import torch

from conftest import blobs_spec, wait_for
from test_watching import exposed, metric_rows, values


def fp16_spec(**loop):
    """40 steps; gradients overflow in the first of them, and again whenever the scale has grown."""
    scaler = {"init_scale": 2.0**26, "growth_interval": 4}
    return {
        **blobs_spec(epochs=5, **loop),
        "schedule": {"linear": {}},
        "accelerator": {"mixed_precision": "fp16", "emulate_fp16": True, "scaler_kwargs": scaler},
    }


def newest(daemon, job):
    return pathlib.Path(daemon.json("checkpoints", job)["checkpoints"][0]["path"])


def test_scaler_is_seen_and_resumed(daemon):
    daemon.submit(fp16_spec(checkpoint_every_steps=13), "scaled")
    daemon.wait_state("scaled", "SUCCEEDED")
    rows = metric_rows(daemon, "scaled")
    skipped = [value for _, value in rows["train/step_was_skipped"]]
    assert len(skipped) == 40 and 3 <= sum(skipped) < 20 and set(skipped) == {0, 1}
    assert [value for _, value in rows["train/skipped_steps"]] == [sum(skipped[: i + 1]) for i in range(40)]
    scale, tracker = 2.0**26, 0
    for was_skipped, (_, now) in zip(skipped, rows["train/loss_scale"]):
        tracker = 0 if was_skipped else tracker + 1
        scale *= 0.5 if was_skipped else 2 if tracker == 4 else 1
        tracker %= 4
        assert now == scale
    # The schedule counts the steps that were taken: two updates each, of the 80 that the job has.
    taken = [i - sum(skipped[:i]) for i in range(40)]
    rates = [value for _, value in rows["train/learning_rate"]]
    assert rates == [0.01 * ((80 - 2 * n) / 80) for n in taken]

    text = wait_for(lambda: (lambda t: t if 'accel_steps_total{job="scaled"} 40' in t else None)(exposed(daemon)),
                    "all steps are counted", 10)
    assert values(text, "accel_loss_scale")['job="scaled"'] == scale
    assert values(text, "accel_skipped_steps")['job="scaled"'] == sum(skipped)

    state = json.loads((newest(daemon, "scaled") / "scaler.json").read_text())
    assert state["scale"] == scale and state["growth_tracker"] == tracker and state["skipped_steps"] == sum(skipped)
    checkpoints = daemon.json("checkpoints", "scaled")["checkpoints"]
    middle = next(c["name"] for c in checkpoints if c["step"] == "13")
    daemon.submit({**fp16_spec(), "resume_from": middle}, "scaled-on")
    daemon.wait_state("scaled-on", "SUCCEEDED")
    for key in ("train/loss_scale", "train/skipped_steps", "train/learning_rate", "train/loss"):
        assert metric_rows(daemon, "scaled-on")[key] == rows[key][13:]
    weights = [safetensors.torch.load_file(newest(daemon, job) / "model.safetensors") for job in ("scaled", "scaled-on")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_no_scaler_no_series(daemon):
    off = {"mixed_precision": "fp16", "emulate_fp16": True, "scaler_kwargs": {"enabled": False}}
    daemon.submit({**blobs_spec(), "accelerator": off}, "unscaled")
    daemon.wait_state("unscaled", "SUCCEEDED")
    assert not {"train/loss_scale", "train/step_was_skipped", "train/skipped_steps"} & set(metric_rows(daemon, "unscaled"))
    assert not os.path.exists(newest(daemon, "unscaled") / "scaler.json")


def test_rate_falls_on_a_plateau(daemon):
    plateau = {"metric": "eval/accuracy", "patience": 0, "threshold": 0.5, "factor": 0.5}
    daemon.submit({**blobs_spec(epochs=4), "schedule": {"reduce_on_plateau": plateau}}, "plateau")
    daemon.wait_state("plateau", "SUCCEEDED")
    rates = [value for _, value in metric_rows(daemon, "plateau")["train/learning_rate"]]
    # The first value is the best one so far; none after it is better by half.
    assert rates == [0.01] * 16 + [0.005] * 8 + [0.0025] * 8
    assert json.loads((newest(daemon, "plateau") / "reduce_on_plateau.json").read_text())["rate"] == 0.00125
