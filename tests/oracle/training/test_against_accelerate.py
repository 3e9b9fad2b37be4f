"""The same job by accel-worker and as an Accelerate script: losses of every step and final weights."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import worker_harness
from safetensors.torch import load_file, save_file

PEER = pathlib.Path(__file__).with_name("accelerate_peer.py")


def make_data(folder):
    """Numbers for classification (flat and as pictures), with targets that do not count, for regression; a text."""
    generator = torch.Generator().manual_seed(3)
    for name, samples in (("train", 130), ("evaluation", 53)):
        features = torch.randn(samples, 64, generator=generator)
        scores = features[:, :4] + 0.3 * torch.randn(samples, 4, generator=generator)
        targets = scores.argmax(1)
        save_file({"features": features, "targets": targets}, folder / f"{name}.safetensors")
        save_file({"features": features, "targets": scores[:, :2].contiguous()}, folder / f"{name}_numbers.safetensors")
        # Much in some batches, nothing in others.
        masked = torch.where(torch.arange(samples) % 11 < 4, -100, targets)
        save_file({"features": features, "targets": masked}, folder / f"{name}_masked.safetensors")
    words = [b"the", b"quick", b"brown", b"fox", b"jumps", b"over", b"a", b"lazy", b"dog"]
    picks = torch.randint(len(words), (700,), generator=generator)
    (folder / "text.txt").write_bytes(b" ".join(words[i] for i in picks))


def dataset(name, **options):
    return {"file": f"data/{name}.safetensors", "safetensors": {}, **options}


def job(model, optimizer, epochs=3, schedule=None, clipping=None, data=None, **loop):
    spec = {
        "device": "cpu",
        "model": model,
        "data": {"train": dataset("train"), "evaluation": dataset("evaluation"), "batch_size": 8, **(data or {})},
        "loss": {"cross_entropy": {}},
        "optimizer": optimizer,
        "loop": {
            "num_epochs": epochs,
            "seed": 11,
            "num_cpu_threads_per_process": 1,
            "log_grad_norm": True,
            **loop,
        },
    }
    if schedule:
        spec["schedule"] = schedule
    if clipping:
        spec["loop"]["clipping"] = clipping
    return spec


def mlp(dropout=0.0, activation="relu"):
    return {"mlp": {"layer_sizes": [64, 48, 4], "dropout": dropout, "activation": activation}}


CONVNET = {"convnet": {"height": 8, "width": 8, "channels": [4, 8], "num_classes": 4, "dropout": 0.2}}
PICTURES = {
    "train": dataset("train", feature_shape=[1, 8, 8]),
    "evaluation": dataset("evaluation", feature_shape=[1, 8, 8]),
}
MASKED = {"train": dataset("train_masked"), "evaluation": dataset("evaluation_masked")}
NUMBERS = {"train": dataset("train_numbers"), "evaluation": dataset("evaluation_numbers")}
SEEDABLE = {"dataloader_config": {"use_seedable_sampler": True, "data_seed": 5}}


def gpt_job(optimizer, **options):
    spec = job({"gpt": {"num_layers": 2, "num_heads": 2, "embedding_size": 32, "dropout": 0.1}}, optimizer, **options)
    spec["data"] = {"train": {"file": "data/text.txt", "bytes": {"sequence_length": 32}}, "batch_size": 4}
    spec["loss"] = {"next_token": {}}
    return spec


# name -> (spec, accelerator)
JOBS = {
    "mlp_sgd_momentum": (
        job(mlp(0.1), {"sgd": {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.001, "nesterov": True}}),
        SEEDABLE,
    ),
    "mlp_sgd_plain_value_clipping": (
        job(mlp(), {"sgd": {"lr": 0.2}}, clipping={"max_value": 0.01}, data={"drop_last": True}),
        {},
    ),
    "mlp_adam_linear": (
        job(mlp(0.2, "gelu"), {"adam": {"lr": 0.01, "weight_decay": 0.01}}, schedule={"linear": {"warmup_steps": 10}}),
        {},
    ),
    "mlp_adam_amsgrad_plain_schedule": (
        job(mlp(0, "tanh"), {"adam": {"lr": 0.01, "amsgrad": True}}, schedule={"linear": {"warmup_steps": 5}}),
        {"step_scheduler_with_optimizer": False, "dataloader_config": {"even_batches": True}},
    ),
    "mlp_adamw_cosine_clipping": (
        job(
            mlp(0.1),
            {"adamw": {"lr": 0.02, "beta2": 0.99, "weight_decay": 0.1}},
            schedule={"cosine": {"warmup_steps": 4}},
            clipping={"max_norm": 0.5},
        ),
        SEEDABLE,
    ),
    "mlp_split_batches": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, schedule={"linear": {}}),
        {"dataloader_config": {"split_batches": True, "use_seedable_sampler": True}},
    ),
    "convnet_adamw": (job(CONVNET, {"adamw": {"lr": 0.01}}, data=PICTURES), SEEDABLE),
    "convnet_buffers_stay_local": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, data=PICTURES),
        {**SEEDABLE, "ddp_kwargs": {"broadcast_buffers": False}},
    ),
    "convnet_ddp_options": (
        job(CONVNET, {"adam": {"lr": 0.01}}, data=PICTURES),
        {**SEEDABLE, "ddp_kwargs": {"bucket_cap_mb": 1, "gradient_as_bucket_view": True, "static_graph": True}},
    ),
    # 130 samples make 17 batches on one rank and 9 on two: the last step of an epoch is short.
    "accumulation_short_last_step": (
        job(
            mlp(0.1),
            {"adamw": {"lr": 0.02}},
            epochs=5,
            schedule={"linear": {"warmup_steps": 4}},
            clipping={"max_norm": 0.05},
        ),
        {**SEEDABLE, "gradient_accumulation_plugin": {"num_steps": 4, "adjust_scheduler": False}},
    ),
    # Steps go on over the ends of epochs; the batches after the last one only accumulate.
    "accumulation_over_epochs": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, epochs=5, data=PICTURES, schedule={"cosine": {}}),
        {
            **SEEDABLE,
            "gradient_accumulation_plugin": {
                "num_steps": 4,
                "adjust_scheduler": False,
                "sync_with_dataloader": False,
            },
        },
    ),
    "accumulation_reduced_each_batch": (
        job(mlp(0.1), {"adam": {"lr": 0.01}}, epochs=5),
        {"gradient_accumulation_plugin": {"num_steps": 3, "sync_each_batch": True}},
    ),
    "accumulation_adjusted_schedule": (
        job(mlp(), {"sgd": {"lr": 0.1}}, epochs=5, schedule={"linear": {"warmup_steps": 9}}),
        {"gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "accumulation_plain_schedule": (
        job(mlp(), {"sgd": {"lr": 0.1}}, epochs=5, schedule={"cosine": {"warmup_steps": 3}}),
        {"step_scheduler_with_optimizer": False, "gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "accumulation_static_graph": (
        job(mlp(0.1), {"adam": {"lr": 0.01}}, epochs=5),
        {
            **SEEDABLE,
            "gradient_accumulation_plugin": {"num_steps": 2, "sync_each_batch": True},
            "ddp_kwargs": {"static_graph": True},
        },
    ),
    "accumulation_ddp_options": (
        job(CONVNET, {"adam": {"lr": 0.01}}, epochs=5, data=PICTURES),
        {
            **SEEDABLE,
            "gradient_accumulation_plugin": {"num_steps": 2},
            "ddp_kwargs": {"gradient_as_bucket_view": True, "find_unused_parameters": True},
        },
    ),
    "accumulation_buffers_stay_local": (
        job(CONVNET, {"adamw": {"lr": 0.01}}, data=PICTURES),
        {"gradient_accumulation_plugin": {"num_steps": 2}, "ddp_kwargs": {"broadcast_buffers": False}},
    ),
    "accumulation_bucket_views_clipping": (
        job(mlp(0.1), {"adam": {"lr": 0.01}}, clipping={"max_norm": 0.1}),
        {
            "gradient_accumulation_plugin": {"num_steps": 2},
            "ddp_kwargs": {"gradient_as_bucket_view": True, "find_unused_parameters": True, "bucket_cap_mb": 1},
        },
    ),
    "accumulation_each_batch_bucket_views_value_clipping": (
        job(mlp(), {"sgd": {"lr": 0.2, "momentum": 0.9}}, epochs=5, clipping={"max_value": 0.01}),
        {
            "gradient_accumulation_plugin": {"num_steps": 4, "sync_each_batch": True, "adjust_scheduler": False},
            "ddp_kwargs": {"gradient_as_bucket_view": True},
        },
    ),
    "accumulation_drop_last": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, epochs=6, schedule={"linear": {}}, data={"drop_last": True}),
        {**SEEDABLE, "gradient_accumulation_plugin": {"num_steps": 3, "adjust_scheduler": False}},
    ),
    "accumulation_split_batches_adjusted_schedule": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, schedule={"linear": {"warmup_steps": 7}}),
        {"gradient_accumulation_plugin": {"num_steps": 4}, "dataloader_config": {"split_batches": True}},
    ),
    "accumulation_split_batches_schedule_as_it_is": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, schedule={"linear": {"warmup_steps": 3}}),
        {
            "gradient_accumulation_plugin": {"num_steps": 4, "adjust_scheduler": False},
            "dataloader_config": {"split_batches": True, "use_seedable_sampler": True, "data_seed": 7},
        },
    ),
    # Two ranks have six batches each, the last one of rank 1 being shorter.
    "uneven_batches": (
        job(mlp(0.1), {"adam": {"lr": 0.01}}, data={"batch_size": 11, "evaluation_batch_size": 7}),
        {"dataloader_config": {"even_batches": False, "data_seed": 9}},
    ),
    # Five buckets, rebuilt after the first step.
    "mlp_small_buckets_clipping": (
        job(
            {"mlp": {"layer_sizes": [64, 2000, 300, 200, 4]}},
            {"sgd": {"lr": 0.05, "momentum": 0.9}},
            epochs=2,
            clipping={"max_norm": 0.5},
        ),
        {"ddp_kwargs": {"bucket_cap_mb": 1, "gradient_as_bucket_view": True}},
    ),
    "mlp_in_order_targets_that_do_not_count": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, data={**MASKED, "shuffle": False, "drop_last": True}),
        {"ddp_kwargs": {"static_graph": True}},
    ),
    "mse_accumulation": (
        {
            **job({"mlp": {"layer_sizes": [64, 32, 2]}}, {"adam": {"lr": 0.01}}, data=NUMBERS),
            "loss": {"mse": {}},
        },
        {"gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "bf16_mlp": (
        job(mlp(0.1, "gelu"), {"adamw": {"lr": 0.01}}, clipping={"max_norm": 0.5}),
        {**SEEDABLE, "mixed_precision": "bf16"},
    ),
    "bf16_convnet_accumulation": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, epochs=5, data=PICTURES),
        {"mixed_precision": "bf16", "gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "bf16_gpt_without_cache": (
        gpt_job({"adamw": {"lr": 0.003}}, clipping={"max_norm": 1.0}),
        {**SEEDABLE, "mixed_precision": "bf16", "autocast_kwargs": {"cache_enabled": False}},
    ),
    "bf16_autocast_off": (
        job(mlp(), {"adam": {"lr": 0.01}}),
        {**SEEDABLE, "mixed_precision": "bf16", "autocast_kwargs": {"enabled": False}},
    ),
    "mlp_sgd_maximize_constant_warmup": (
        job(
            mlp(),
            {"sgd": {"lr": 0.001, "momentum": 0.5, "dampening": 0.1, "maximize": True}},
            schedule={"constant": {"warmup_steps": 9}},
        ),
        {},
    ),
    "mlp_adagrad_polynomial": (
        job(
            mlp(0.1),
            {"adagrad": {"lr": 0.05, "lr_decay": 0.01, "weight_decay": 0.01, "initial_accumulator_value": 0.1}},
            schedule={"polynomial": {"warmup_steps": 3, "lr_end": 0.001, "power": 2}},
        ),
        SEEDABLE,
    ),
    "mlp_rmsprop_multi_step": (
        job(
            mlp(0.1, "tanh"),
            {"rmsprop": {"lr": 0.002, "centered": True, "momentum": 0.9, "weight_decay": 0.01}},
            schedule={"multi_step": {"milestones": [5, 11, 30], "gamma": 0.3}},
        ),
        {},
    ),
    "mlp_rmsprop_inverse_sqrt": (
        job(mlp(), {"rmsprop": {"lr": 0.003, "alpha": 0.9}}, schedule={"inverse_sqrt": {"warmup_steps": 6}}),
        {},
    ),
    "mlp_adamw_no_decay_names_exponential": (
        job(
            mlp(),
            {"adamw": {"lr": 0.01, "weight_decay": 0.5, "amsgrad": True}, "no_decay": {"name_contains": ["3."]}},
            schedule={"exponential": {"gamma": 0.95}},
        ),
        {"step_scheduler_with_optimizer": False},
    ),
    "convnet_adagrad_no_decay_step": (
        job(
            CONVNET,
            {"adagrad": {"lr": 0.05, "weight_decay": 0.1}, "no_decay": {"norms": True}},
            schedule={"step": {"step_size": 7, "gamma": 0.6}},
            data=PICTURES,
        ),
        SEEDABLE,
    ),
    "convnet_sgd_no_decay_one_cycle": (
        job(
            CONVNET,
            {"sgd": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, "no_decay": {"biases": True}},
            schedule={"one_cycle": {"pct_start": 0.4, "cycle_momentum": False}},
            data=PICTURES,
        ),
        SEEDABLE,
    ),
    "mlp_adamw_one_cycle_momentum_three_phases": (
        job(
            mlp(0.1),
            {"adamw": {"lr": 0.01}},
            schedule={"one_cycle": {"max_lr": 0.05, "three_phase": True, "anneal_strategy": "linear"}},
        ),
        {"step_scheduler_with_optimizer": False},
    ),
    # The mean loss of epoch 2 is worse than that of epoch 1 by this threshold.
    "mlp_plateau_of_the_loss": (
        job(
            mlp(0.1),
            {"sgd": {"lr": 0.05, "momentum": 0.9}},
            epochs=6,
            schedule={
                "reduce_on_plateau": {"metric": "train/loss", "patience": 0, "threshold": 0.2, "factor": 0.5}
            },
        ),
        {"gradient_accumulation_plugin": {"num_steps": 2}},
    ),
    "mlp_plateau_of_the_accuracy": (
        job(
            mlp(),
            {"adam": {"lr": 0.02}},
            epochs=6,
            schedule={"reduce_on_plateau": {"metric": "eval/accuracy", "patience": 1, "cooldown": 1}},
        ),
        SEEDABLE,
    ),
    "mlp_lbfgs": (job(mlp(), {"lbfgs": {"lr": 0.1, "max_iter": 4}}, epochs=2, log_grad_norm=False), SEEDABLE),
    "mse_lbfgs_strong_wolfe": (
        {
            **job(
                {"mlp": {"layer_sizes": [64, 16, 2], "activation": "tanh"}},
                {"lbfgs": {"max_iter": 6, "history_size": 3, "line_search_fn": "strong_wolfe"}},
                epochs=2,
                data=NUMBERS,
                schedule={"exponential": {"gamma": 0.9}},
                log_grad_norm=False,
            ),
            "loss": {"mse": {}},
        },
        {},
    ),
    # Rank 0 reads; the last round is cut into two.
    "dispatch_batches": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, data={"batch_size": 6}, schedule={"cosine": {}}),
        {"dataloader_config": {"dispatch_batches": True}},
    ),
    "dispatch_split_batches_accumulation": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, data=PICTURES),
        {
            "dataloader_config": {"dispatch_batches": True, "split_batches": True, "non_blocking": True},
            "gradient_accumulation_plugin": {"num_steps": 4},
        },
    ),
    "gpt_adamw_no_decay_restarts": (
        gpt_job(
            {"adamw": {"lr": 0.003, "weight_decay": 0.3}, "no_decay": {"biases": True, "norms": True}},
            schedule={"cosine_with_restarts": {"warmup_steps": 8, "num_cycles": 3}},
        ),
        SEEDABLE,
    ),
    "gpt_adamw_cosine_clipping": (
        gpt_job({"adamw": {"lr": 0.003}}, schedule={"cosine": {"warmup_steps": 8}}, clipping={"max_norm": 1.0}),
        {**SEEDABLE, "ddp_kwargs": {"find_unused_parameters": True}},
    ),
}


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


def run_peer(jobs, world_size, data_folder, out, script=PEER):
    """Runs jobs, name -> (spec, accelerator), as Accelerate scripts; `out` then holds their results."""
    jobs = {
        name: {"spec": spec, "accelerator": accelerator, "data": str(data_folder)}
        for name, (spec, accelerator) in jobs.items()
    }
    (out / "jobs.json").write_text(json.dumps(jobs))
    launch = [sys.executable]
    if world_size > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={world_size}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "GLOO_SOCKET_IFNAME": "lo"}
    command = [*launch, str(script), str(out / "jobs.json"), str(out)]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        assert process.wait(timeout=400) == 0
    finally:
        # A launcher that is killed leaves its ranks.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module", params=[1, 2], ids=["1_rank", "2_ranks"])
def peer(request, data_folder, tmp_path_factory):
    """(world size, folder with the Accelerate script's results of all JOBS of the test's module)."""
    world_size, out = request.param, tmp_path_factory.mktemp("peer")
    run_peer(request.module.JOBS, world_size, data_folder, out)
    return world_size, out


def assert_equal_training(ranks, peer_folder, checkpoints):
    """Every step's report and the final weights are the Accelerate script's; returns its results by rank."""
    assert worker_harness.finished(ranks) == "yes"
    results = [json.loads((peer_folder / f"result_{rank}.json").read_text()) for rank in range(len(ranks))]
    weights = load_file(peer_folder / "model.safetensors")

    for rank, result in zip(ranks, results):
        steps = rank.of("step")
        assert len(steps) == len(result["losses"]) > 10
        assert [step.learning_rate for step in steps] == result["rates"]
        # Gradients that overflow have no norm.
        np.testing.assert_array_equal([step.grad_norm for step in steps if step.HasField("grad_norm")], result["norms"])
        assert rank.losses() == result["losses"]
        assert [step.loss_scaling.scale for step in steps if step.HasField("loss_scaling")] == result["scales"]
        skipped = [step.loss_scaling.skipped_steps for step in steps if step.HasField("loss_scaling")]
        assert skipped == result["skipped"]

    ours = load_file(checkpoints / "0" / "model.safetensors")
    assert ours.keys() == weights.keys()
    for key, tensor in weights.items():
        assert torch.equal(ours[key], tensor), key
    return results


def assert_equal_evaluations(ranks, results):
    """Rank 0 alone reports, and what it reports is over every sample once, whatever the number of ranks."""
    evaluations = [dict(report.values) for report in ranks[0].of("metrics")]
    assert len(evaluations) == len(results[0]["evaluations"])
    for mine, theirs in zip(evaluations, results[0]["evaluations"]):
        assert mine["eval/samples"] == theirs["eval/samples"] == 53
        if "eval/accuracy" in theirs:
            assert mine["eval/accuracy"] == pytest.approx(theirs["eval/accuracy"], abs=1e-12)
        # Ours adds up the batches' sums in double, the script takes one mean in single precision.
        assert mine["eval/loss"] == pytest.approx(theirs["eval/loss"], rel=1e-6)
    for rank in ranks[1:]:
        assert not rank.of("metrics")


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer, data_folder, tmp_path):
    world_size, peer_folder = peer
    spec, accelerator = JOBS[name]
    ranks = worker_harness.train(spec, data_folder, world_size, accelerator, checkpoints=tmp_path)
    results = assert_equal_training(ranks, peer_folder / name, tmp_path)
    assert_equal_evaluations(ranks, results)


def test_bf16_is_not_fp32(data_folder, tmp_path):
    spec, accelerator = JOBS["bf16_mlp"]
    full = {key: value for key, value in accelerator.items() if key != "mixed_precision"}
    losses = {
        name: worker_harness.train(spec, data_folder, 1, config, checkpoints=tmp_path / name)[0].losses()
        for name, config in (("bf16", accelerator), ("fp32", full))
    }
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.1)


def test_training_learns(data_folder, tmp_path):
    """The jobs above are no fixed points: their loss falls."""
    spec, accelerator = JOBS["mlp_sgd_momentum"]
    losses = worker_harness.train(spec, data_folder, 1, accelerator, checkpoints=tmp_path)[0].losses()
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
