"""Loss scaling, emulated on the CPU, and what meets it: whole runs, bit for bit those of Accelerate with torch's scaler."""

import pytest
import worker_harness
from test_against_accelerate import (
    CONVNET,
    PICTURES,
    SEEDABLE,
    assert_equal_evaluations,
    assert_equal_training,
    data_folder,  # noqa: F401 (a fixture)
    gpt_job,
    job,
    mlp,
    peer,  # noqa: F401 (a fixture)
)


def fp16(scaler=None, **config):
    config = {**SEEDABLE, "mixed_precision": "fp16", "emulate_fp16": True, **config}
    return {**config, "scaler_kwargs": scaler} if scaler else config


# Gradients overflow in the first steps, and again whenever the scale has grown enough.
OVERFLOWING = {"init_scale": 2.0**28, "growth_interval": 3}
ACCUMULATION = {"gradient_accumulation_plugin": {"num_steps": 2, "adjust_scheduler": False}}

# name -> (spec, accelerator)
JOBS = {
    # Without a look at the gradients a fused optimizer divides by the scale itself.
    "sgd": (job(mlp(0.1), {"sgd": {"lr": 0.05, "momentum": 0.9}}, log_grad_norm=False), fp16()),
    "overflow_adamw_clipping_schedule": (
        job(mlp(0.1), {"adamw": {"lr": 0.02}}, schedule={"linear": {"warmup_steps": 4}}, clipping={"max_norm": 0.5}),
        fp16(OVERFLOWING),
    ),
    "overflow_rmsprop_accumulation_value_clipping_fp16_hook": (
        job(
            mlp(0.1, "tanh"),
            {"rmsprop": {"lr": 0.002, "momentum": 0.9}},
            epochs=5,
            schedule={"cosine": {"warmup_steps": 3}},
            clipping={"max_value": 0.05},
            log_grad_norm=False,
        ),
        fp16(OVERFLOWING, **ACCUMULATION, ddp_kwargs={"comm_hook": "fp16"}),
    ),
    "other_factors_accumulation_over_epochs": (
        job(CONVNET, {"adam": {"lr": 0.01}}, epochs=5, data=PICTURES),
        fp16(
            {"init_scale": 3.7, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 3},
            gradient_accumulation_plugin={"num_steps": 4, "adjust_scheduler": False, "sync_with_dataloader": False},
        ),
    ),
    "overflow_plain_schedule_without_cache": (
        job(mlp(), {"sgd": {"lr": 0.1}}, schedule={"linear": {}}, log_grad_norm=False),
        fp16(
            {"init_scale": 2.0**40, "backoff_factor": 0.1, "growth_interval": 5},
            step_scheduler_with_optimizer=False,
            autocast_kwargs={"cache_enabled": False},
        ),
    ),
    "scaler_off": (job(mlp(), {"adam": {"lr": 0.01}}), fp16({"enabled": False})),
    "autocast_off_adagrad": (
        job(mlp(), {"adagrad": {"lr": 0.05}}, clipping={"max_norm": 0.1}),
        fp16({"init_scale": 2.0**125, "growth_interval": 2}, autocast_kwargs={"enabled": False}),
    ),
    "gpt_power_sgd": (
        gpt_job({"adamw": {"lr": 0.003}}, clipping={"max_norm": 1.0}),
        fp16(
            {"init_scale": 1024.0},
            ddp_kwargs={"comm_hook": "power_sgd", "comm_state_option": {"start_powerSGD_iter": 2}},
        ),
    ),
    # Without momentum: torch's fused SGD leaves it uninitialised where the first step is skipped.
    "guarded_fp16_hook": (
        job(mlp(0.1), {"sgd": {"lr": 0.05}}, schedule={"cosine": {}}),
        fp16({"init_scale": 2.0**20}, ddp_kwargs={"comm_hook": "fp16", "comm_hook_overflow_guard": True}),
    ),
    "guarded_bf16_hook_in_fp32": (
        job(mlp(0.1), {"sgd": {"lr": 0.05, "momentum": 0.9}}),
        {**SEEDABLE, "ddp_kwargs": {"comm_hook": "bf16", "comm_hook_overflow_guard": True}},
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer, data_folder, tmp_path):  # noqa: F811
    world_size, peer_folder = peer
    spec, accelerator = JOBS[name]
    ranks = worker_harness.train(spec, data_folder, world_size, accelerator, checkpoints=tmp_path)
    results = assert_equal_training(ranks, peer_folder / name, tmp_path)
    scaled = "scaler_kwargs" in accelerator and "scaler_off" != name
    assert bool(results[0]["scales"]) == (scaled or name == "sgd")
    if name.startswith("overflow"):
        assert 2 <= results[0]["skipped"][-1] < len(results[0]["losses"]) - 5
        assert [step.loss_scaling.step_was_skipped for step in ranks[0].of("step")].count(True) == (
            results[0]["skipped"][-1]
        )
    if results[0]["evaluations"]:
        assert_equal_evaluations(ranks, results)


def test_error_feedback_recovers_from_overflow(data_folder, tmp_path):  # noqa: F811
    """torch's memory of what compression took stays NaN for ever, and every later step is skipped."""
    spec = job(mlp(), {"sgd": {"lr": 0.05}})
    hook = {"comm_hook": "power_sgd", "comm_state_option": {"start_powerSGD_iter": 2}}
    ranks = worker_harness.train(
        spec, data_folder, 2, fp16({"init_scale": 2.0**36}, ddp_kwargs=hook), checkpoints=tmp_path
    )
    assert worker_harness.finished(ranks) == "yes"
    skipped = [step.loss_scaling.step_was_skipped for step in ranks[0].of("step")]
    assert sum(skipped[2:]) > 2 and not any(skipped[-5:])
    assert ranks[0].losses()[-1] < ranks[0].losses()[0]
