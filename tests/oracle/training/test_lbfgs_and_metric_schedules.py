"""Optimizers that call back, schedules that go by a metric and cycled momenta: whole runs, those of Accelerate."""

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

LINE_SEARCH = {"lbfgs": {"lr": 0.5, "max_iter": 4, "history_size": 5, "line_search_fn": "strong_wolfe"}}
# A step of L-BFGS has several gradients.
NO_NORM = {"log_grad_norm": False}
ADAM = {"adam": {"lr": 0.01}}


def plateau(metric, **options):
    """A schedule that finds most values not good enough."""
    return {"reduce_on_plateau": {"metric": metric, "patience": 0, "threshold": 0.2, "factor": 0.5, **options}}


def one_cycle(**options):
    return {"one_cycle": {"pct_start": 0.4, **options}}


# name -> (spec, accelerator)
JOBS = {
    "lbfgs": (job(mlp(), {"lbfgs": {"lr": 0.05, "max_iter": 3}}, **NO_NORM), SEEDABLE),
    "lbfgs_line_search_dropout_cosine": (
        job(mlp(0.1, "tanh"), LINE_SEARCH, schedule={"cosine": {}}, **NO_NORM),
        SEEDABLE,
    ),
    "lbfgs_line_search_convnet": (job(CONVNET, LINE_SEARCH, epochs=2, data=PICTURES, **NO_NORM), {}),
    "lbfgs_gpt_bf16": (
        gpt_job({"lbfgs": {"lr": 0.1, "max_iter": 2}}, schedule={"linear": {"warmup_steps": 3}}, **NO_NORM),
        {**SEEDABLE, "mixed_precision": "bf16"},
    ),
    "lbfgs_fp16_without_scaler": (
        job(mlp(), {"lbfgs": {"lr": 0.02, "max_iter": 2}}, **NO_NORM),
        {**SEEDABLE, "mixed_precision": "fp16", "emulate_fp16": True, "scaler_kwargs": {"enabled": False}},
    ),
    "lbfgs_plateau": (
        job(mlp(), LINE_SEARCH, epochs=6, schedule=plateau("train/loss", threshold=0.99), **NO_NORM),
        SEEDABLE,
    ),
    "plateau_evaluation_loss": (job(mlp(0.1), ADAM, epochs=6, schedule=plateau("eval/loss")), SEEDABLE),
    "plateau_accuracy": (
        job(mlp(), {"sgd": {"lr": 0.05, "momentum": 0.9}}, epochs=6, schedule=plateau("eval/accuracy", mode="max")),
        {},
    ),
    "plateau_training_loss_accumulation": (
        job(CONVNET, ADAM, epochs=6, data=PICTURES, schedule=plateau("train/loss", threshold_mode="abs")),
        {**SEEDABLE, "gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "plateau_training_loss_over_epochs_plain": (
        job(mlp(), ADAM, epochs=6, schedule=plateau("train/loss", threshold=0.7, cooldown=1, min_lr=0.004)),
        {
            "step_scheduler_with_optimizer": False,
            "gradient_accumulation_plugin": {"num_steps": 2, "sync_with_dataloader": False},
        },
    ),
    "plateau_fp16": (
        job(mlp(), ADAM, epochs=6, schedule=plateau("eval/loss"), clipping={"max_norm": 1.0}),
        {
            **SEEDABLE,
            "mixed_precision": "fp16",
            "emulate_fp16": True,
            "scaler_kwargs": {"init_scale": 2.0**28, "growth_interval": 3},
        },
    ),
    "one_cycle_sgd": (job(mlp(0.1), {"sgd": {"lr": 0.05}}, schedule=one_cycle(max_lr=0.1)), SEEDABLE),
    "one_cycle_adamw_three_phases": (
        job(mlp(), {"adamw": {"lr": 0.01}}, schedule=one_cycle(three_phase=True, base_momentum=0.7)),
        {},
    ),
    "one_cycle_rmsprop_plain": (
        job(CONVNET, {"rmsprop": {"lr": 0.002}}, data=PICTURES, schedule=one_cycle(anneal_strategy="linear")),
        {**SEEDABLE, "step_scheduler_with_optimizer": False},
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer, data_folder, tmp_path):  # noqa: F811
    world_size, peer_folder = peer
    spec, accelerator = JOBS[name]
    ranks = worker_harness.train(spec, data_folder, world_size, accelerator, checkpoints=tmp_path)
    results = assert_equal_training(ranks, peer_folder / name, tmp_path)
    rates = results[0]["rates"]
    assert rates == sorted(rates, reverse=True) and len(set(rates)) > 2 or "plateau" not in name
    if results[0]["evaluations"]:
        assert_equal_evaluations(ranks, results)
