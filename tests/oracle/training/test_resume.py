"""A run that goes on from a checkpoint ends with the very files of the run that was not interrupted."""

import pytest
import worker_harness
from safetensors.torch import load_file
from test_against_accelerate import CONVNET, MASKED, PICTURES, gpt_job, job, make_data, mlp

LOCAL_BUFFERS = {"ddp_kwargs": {"broadcast_buffers": False}}

# Gradients of two buckets.
WIDE = job({"mlp": {"layer_sizes": [64, 5000, 64, 4]}}, {"sgd": {"lr": 0.02, "momentum": 0.9}}, epochs=2)
POWER_SGD = {
    "ddp_kwargs": {
        "comm_hook": "power_sgd",
        "comm_state_option": {"start_powerSGD_iter": 3, "matrix_approximation_rank": 2},
    }
}
# Gradients overflow at first, and again whenever the scale has grown.
FP16 = {
    "mixed_precision": "fp16",
    "emulate_fp16": True,
    "scaler_kwargs": {"init_scale": 2.0**24, "growth_interval": 3},
}
PLATEAU = {"patience": 0, "threshold": 0.2, "factor": 0.5}

# name -> (spec, accelerator, world size). With three ranks sums depend on the order of additions.
RUNS = {
    "convnet_two_ranks": (job(CONVNET, {"adamw": {"lr": 0.01}}, data=PICTURES), {}, 2),
    "convnet_local_buffers_three_ranks": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, data=PICTURES),
        LOCAL_BUFFERS,
        3,
    ),
    "accumulation_two_ranks": (
        job(CONVNET, {"adamw": {"lr": 0.01}}, epochs=5, data=PICTURES, schedule={"linear": {}}),
        {"gradient_accumulation_plugin": {"num_steps": 2}},
        2,
    ),
    "accumulation_over_epochs_two_ranks": (
        job(CONVNET, {"adamw": {"lr": 0.01}}, epochs=8, data=PICTURES, schedule={"linear": {}}),
        {**LOCAL_BUFFERS, "gradient_accumulation_plugin": {"num_steps": 4, "sync_with_dataloader": False}},
        2,
    ),
    "mlp_rmsprop_multi_step": (
        job(
            mlp(),
            {
                "rmsprop": {"lr": 0.002, "centered": True, "momentum": 0.9, "weight_decay": 0.01},
                "no_decay": {"biases": True},
            },
            schedule={"multi_step": {"milestones": [5, 11, 30], "gamma": 0.3}},
        ),
        {},
        2,
    ),
    "mlp_adagrad_one_cycle": (
        job(
            mlp(),
            {"adagrad": {"lr": 0.05, "lr_decay": 0.01}},
            schedule={"one_cycle": {"cycle_momentum": False}},
        ),
        {},
        1,
    ),
    "gpt_three_ranks": (
        gpt_job({"adam": {"lr": 0.003}}, schedule={"linear": {"warmup_steps": 5}}, clipping={"max_norm": 1.0}),
        {"dataloader_config": {"use_seedable_sampler": True}},
        3,
    ),
    "power_sgd_two_buckets": (WIDE, POWER_SGD, 2),
    "power_sgd_in_fp16_without_warm_start_three_ranks": (
        job({"mlp": {"layer_sizes": [64, 32, 32, 4]}}, {"sgd": {"lr": 0.02, "momentum": 0.9}}),
        {
            "ddp_kwargs": {
                "comm_hook": "power_sgd",
                "comm_wrapper": "fp16",
                "comm_state_option": {"start_powerSGD_iter": 2, "warm_start": False},
            }
        },
        3,
    ),
    "fp16_overflows_accumulation": (
        job(mlp(0.1), {"adamw": {"lr": 0.02}}, epochs=5, schedule={"linear": {}}, clipping={"max_norm": 0.5}),
        {**FP16, "gradient_accumulation_plugin": {"num_steps": 2}},
        2,
    ),
    "fp16_overflows_power_sgd": (
        job(mlp(), {"sgd": {"lr": 0.05, "momentum": 0.9}}),
        {**FP16, **POWER_SGD},
        2,
    ),
    "lbfgs_three_ranks": (
        job(mlp(0.1), {"lbfgs": {"lr": 0.5, "max_iter": 3, "line_search_fn": "strong_wolfe"}}, log_grad_norm=False),
        {},
        3,
    ),
    "plateau_of_the_training_loss": (
        job(mlp(), {"adam": {"lr": 0.01}}, epochs=5, schedule={"reduce_on_plateau": {**PLATEAU, "metric": "train/loss"}}),
        {},
        2,
    ),
    "plateau_of_the_evaluation": (
        job(mlp(), {"adam": {"lr": 0.01}}, epochs=5, schedule={"reduce_on_plateau": PLATEAU}),
        {},
        1,
    ),
    "cycled_momentum": (
        job(mlp(), {"rmsprop": {"lr": 0.002}}, schedule={"one_cycle": {"pct_start": 0.5}}),
        {},
        2,
    ),
    "items_accumulation": (
        {
            **job(mlp(0.1), {"adamw": {"lr": 0.01}}, epochs=5, data=MASKED),
            "loss": {"cross_entropy": {}, "averaging": "items"},
        },
        {"gradient_accumulation_plugin": {"num_steps": 3}},
        2,
    ),
    # The checkpoint lies in the middle of a period.
    "local_sgd_three_ranks": (
        job(CONVNET, {"adam": {"lr": 0.01}}, epochs=4, data=PICTURES, local_sgd_steps=3),
        {},
        3,
    ),
    "early_end_and_plateau": (
        job(
            mlp(),
            {"sgd": {"lr": 0.05, "momentum": 0.5}},
            epochs=40,
            schedule={"reduce_on_plateau": {"metric": "train/loss", "patience": 0, "threshold": 0.1}},
            early_stopping=[{"metric": "train/loss", "patience": 12}],
        ),
        {},
        2,
    ),
    "batched_power_sgd": (
        job(CONVNET, {"adamw": {"lr": 0.01}}, data=PICTURES),
        {"ddp_kwargs": {"comm_hook": "batched_power_sgd", "comm_state_option": {"start_powerSGD_iter": 2}}},
        2,
    ),
}


def exact(step):
    """What of a step's report is the same in every run, as bytes: NaN equals itself."""
    report = type(step)()
    report.CopyFrom(step)
    for field in ("step_seconds", "time_us"):
        report.ClearField(field)
    return report.SerializeToString(deterministic=True)


@pytest.mark.parametrize("name", RUNS)
def test_resumed_run_is_exact(name, tmp_path):
    spec, accelerator, world_size = RUNS[name]
    make_data(tmp_path)
    spec = {**spec, "loop": {**spec["loop"], "checkpoint_every_steps": 4}}
    whole = worker_harness.train(spec, tmp_path, world_size, accelerator, checkpoints=tmp_path / "whole")
    assert worker_harness.finished(whole) == "yes"
    saved = whole[0].of("checkpoint")
    assert len(saved) > 3

    resume_dir = tmp_path / "whole" / str(saved[1].number)
    resumed = worker_harness.train(
        spec, tmp_path, world_size, accelerator, checkpoints=tmp_path / "resumed", resume_dir=resume_dir
    )
    assert worker_harness.finished(resumed) == "yes"
    for before, after in zip(whole, resumed):
        assert after.of("finished") == before.of("finished")
        for ours, uninterrupted in zip(after.of("step"), before.of("step")[saved[1].step :], strict=True):
            assert exact(ours) == exact(uninterrupted)
    assert [dict(m.values) for m in resumed[0].of("metrics")] == [
        dict(m.values) for m in whole[0].of("metrics") if m.step > saved[1].step
    ]
    last = tmp_path / "whole" / str(saved[-1].number)
    last_resumed = tmp_path / "resumed" / str(resumed[0].of("checkpoint")[-1].number)
    names = sorted(path.name for path in last.iterdir())
    assert names == sorted(path.name for path in last_resumed.iterdir())
    for file in names:
        if file.endswith(".safetensors") or file in ("scaler.json", "reduce_on_plateau.json", "scheduler.json"):
            assert (last / file).read_bytes() == (last_resumed / file).read_bytes(), file
    assert load_file(last / "optimizer.safetensors")


@pytest.mark.parametrize(
    "change", [{"bucket_cap_mb": 1}, {"comm_wrapper": "fp16"}, {"comm_hook": "batched_power_sgd"}], ids=str
)
def test_power_sgd_begins_anew_where_its_buckets_are_others(change, tmp_path):
    make_data(tmp_path)
    spec = {**WIDE, "loop": {**WIDE["loop"], "checkpoint_every_steps": 4}}
    whole = worker_harness.train(spec, tmp_path, 2, POWER_SGD, checkpoints=tmp_path / "whole")
    saved = whole[0].of("checkpoint")[1]
    accelerator = {"ddp_kwargs": {**POWER_SGD["ddp_kwargs"], **change}}
    resume_dir = tmp_path / "whole" / str(saved.number)
    resumed = worker_harness.train(
        spec, tmp_path, 2, accelerator, checkpoints=tmp_path / "resumed", resume_dir=resume_dir
    )
    assert worker_harness.finished(resumed) == "yes"
    assert resumed[0].losses()[0] == whole[0].losses()[saved.step]
    (warning,) = (w for w in resumed[0].of("warning") if w.subject == "accelerator.ddp_kwargs.comm_hook")
    assert "begins anew" in warning.message and "comm_hook power_sgd with bucket_cap_mb 25" in warning.message
    assert not resumed[1].of("warning")
