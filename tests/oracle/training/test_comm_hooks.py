"""Communication hooks of DistributedDataParallelKwargs: whole runs on two ranks, bit for bit those of Accelerate."""

import re

import pytest
import torch
import worker_harness
from safetensors.torch import load_file
from test_against_accelerate import (
    CONVNET,
    PICTURES,
    assert_equal_training,
    data_folder,  # noqa: F401 (a fixture)
    gpt_job,
    job,
    make_data,
    mlp,
    run_peer,
)

MLP = job(mlp(0.1), {"sgd": {"lr": 0.05, "momentum": 0.9}})
# Three matrices of one shape, and rows enough for a rank above 2.
DEEP = job({"mlp": {"layer_sizes": [64, 32, 32, 32, 32, 4]}}, {"adamw": {"lr": 0.01}})
# Gradients of two buckets: the first one ends once it has 1 MiB.
WIDE = job({"mlp": {"layer_sizes": [64, 5000, 64, 4]}}, {"sgd": {"lr": 0.02}}, epochs=2)
PICTURE_JOB = job(CONVNET, {"adam": {"lr": 0.01}}, data=PICTURES)
GPT = gpt_job({"adamw": {"lr": 0.003}}, clipping={"max_norm": 1.0})


def hook(name, wrapper=None, **ddp):
    return {"ddp_kwargs": {"comm_hook": name, **({"comm_wrapper": wrapper} if wrapper else {}), **ddp}}


def power_sgd(wrapper=None, name="power_sgd", ddp=None, **options):
    options = {"start_powerSGD_iter": 2, **options}
    return hook(name, wrapper, comm_state_option=options, **(ddp or {}))


def batched(wrapper=None, ddp=None, **options):
    return power_sgd(wrapper, "batched_power_sgd", ddp, **options)


# Any option set in which nothing is remembered may compress from the start.
FORGETFUL = {"start_powerSGD_iter": 0, "use_error_feedback": False, "warm_start": False}

# name -> (spec, accelerator)
JOBS = {
    "fp16_mlp": (MLP, hook("fp16")),
    "fp16_two_buckets": (WIDE, hook("fp16")),
    "fp16_convnet_bucket_views": (PICTURE_JOB, hook("fp16", gradient_as_bucket_view=True)),
    "fp16_gpt_find_unused": (GPT, hook("fp16", find_unused_parameters=True)),
    "bf16_mlp": (MLP, hook("bf16")),
    "bf16_convnet_static_graph": (PICTURE_JOB, hook("bf16", static_graph=True)),
    "bf16_gpt": (GPT, hook("bf16")),
    "power_sgd_late_start": (MLP, power_sgd(start_powerSGD_iter=9)),
    "power_sgd_never": (MLP, hook("power_sgd")),
    "power_sgd_mlp": (MLP, power_sgd(compression_stats_logging_frequency=5)),
    "power_sgd_two_buckets": (WIDE, power_sgd(matrix_approximation_rank=2, compression_stats_logging_frequency=3)),
    "power_sgd_convnet": (PICTURE_JOB, power_sgd(min_compression_rate=1.0)),
    "power_sgd_convnet_bucket_views": (PICTURE_JOB, power_sgd(ddp={"gradient_as_bucket_view": True})),
    "power_sgd_gpt": (GPT, power_sgd(matrix_approximation_rank=2, random_seed=42)),
    "power_sgd_qr": (DEEP, power_sgd(matrix_approximation_rank=4, min_compression_rate=1.25)),
    "power_sgd_compresses_vectors": (DEEP, power_sgd(min_compression_rate=0.5)),
    "power_sgd_batches_shapes": (DEEP, power_sgd(batch_tensors_with_same_shape=True, matrix_approximation_rank=2)),
    "power_sgd_batches_shapes_qr": (DEEP, power_sgd(batch_tensors_with_same_shape=True, matrix_approximation_rank=3)),
    "power_sgd_epsilon": (MLP, power_sgd(orthogonalization_epsilon=1e-3, matrix_approximation_rank=2)),
    "power_sgd_no_warm_start": (DEEP, power_sgd(warm_start=False, random_seed=4294967295)),
    "power_sgd_no_error_feedback": (DEEP, power_sgd(use_error_feedback=False, random_seed=1)),
    "power_sgd_forgetful": (MLP, power_sgd(**FORGETFUL)),
    "fp16_of_fp16": (MLP, hook("fp16", "fp16")),
    "bf16_of_fp16": (MLP, hook("fp16", "bf16")),
    "fp16_of_bf16_bucket_views": (PICTURE_JOB, hook("bf16", "fp16", gradient_as_bucket_view=True)),
    "fp16_of_power_sgd": (MLP, power_sgd("fp16")),
    "bf16_of_power_sgd_rank_3": (DEEP, power_sgd("bf16", matrix_approximation_rank=3, min_compression_rate=1.0)),
    "bf16_of_power_sgd_late_start": (GPT, power_sgd("bf16", start_powerSGD_iter=5)),
    "bf16_of_batched_power_sgd": (MLP, batched("bf16", matrix_approximation_rank=2)),
    "fp16_of_batched_power_sgd": (MLP, batched("fp16")),
    "batched_power_sgd_mlp": (MLP, batched(compression_stats_logging_frequency=4)),
    "batched_power_sgd_rank_2_convnet": (PICTURE_JOB, batched(matrix_approximation_rank=2, random_seed=7)),
    "batched_power_sgd_qr": (DEEP, batched(matrix_approximation_rank=5)),
    "batched_power_sgd_two_buckets": (WIDE, batched(matrix_approximation_rank=2)),
    "batched_power_sgd_bucket_views": (DEEP, batched(ddp={"gradient_as_bucket_view": True}, use_error_feedback=False)),
    "batched_power_sgd_forgetful": (DEEP, batched(**FORGETFUL)),
}


@pytest.fixture(scope="module")
def peer_folder(data_folder, tmp_path_factory):  # noqa: F811
    out = tmp_path_factory.mktemp("peer")
    run_peer(JOBS, 2, data_folder, out)
    return out


LOGGED = re.compile(
    r"accel-worker: power_sgd: iteration (\d+), elements before compression (\d+), after compression (\d+), "
    r"rate (\S+)\n"
)


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer_folder, tmp_path):
    spec, accelerator = JOBS[name]
    make_data(tmp_path)
    ranks = worker_harness.train(spec, tmp_path, 2, accelerator, checkpoints=tmp_path / "checkpoints")
    results = assert_equal_training(ranks, peer_folder / name, tmp_path / "checkpoints")

    logged = [tuple(map(float, row)) for row in LOGGED.findall((tmp_path / "workers.log").read_text())]
    expected = [tuple(row) for row in results[0]["compression"]]
    assert len(logged) == len(expected)
    for ours, theirs in zip(logged, expected):
        assert ours[:3] == theirs[:3]
        assert ours[3] == pytest.approx(theirs[3], rel=1e-5)
    assert bool(expected) == ("power_sgd" in name and not name.endswith("never"))


THREE_RANKS = ("fp16_mlp", "power_sgd_two_buckets", "bf16_of_power_sgd_rank_3", "batched_power_sgd_qr")


def test_three_ranks_equal_accelerate(data_folder, tmp_path):  # noqa: F811
    jobs = {name: JOBS[name] for name in THREE_RANKS}
    run_peer(jobs, 3, data_folder, tmp_path)
    for name, (spec, accelerator) in jobs.items():
        checkpoints = tmp_path / f"{name}_checkpoints"
        ranks = worker_harness.train(spec, data_folder, 3, accelerator, checkpoints=checkpoints)
        assert_equal_training(ranks, tmp_path / name, checkpoints)


def test_hooks_change_the_training(peer_folder):
    """The jobs differ in their hooks only, and each hook shows in the weights."""
    same = [name for name, (spec, _) in JOBS.items() if spec is MLP]
    weights = {name: load_file(peer_folder / name / "model.safetensors") for name in same}
    for i, first in enumerate(same):
        for second in same[i + 1 :]:
            equal = all(torch.equal(tensor, weights[second][key]) for key, tensor in weights[first].items())
            # fp16 in fp16 is fp16.
            assert equal == ({first, second} == {"fp16_mlp", "fp16_of_fp16"}), (first, second)
