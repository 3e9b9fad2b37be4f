"""Jobs that differ in how their data reaches the ranks, by accel-worker and as Accelerate scripts."""

import numpy as np
import pytest
import worker_harness
from safetensors.torch import load_file
from test_against_accelerate import (
    CONVNET,
    PICTURES,
    SEEDABLE,
    assert_equal_evaluations,
    assert_equal_training,
    gpt_job,
    job,
    make_data,
    mlp,
    peer,  # noqa: F401 (a fixture)
)

DISPATCHED = {"dispatch_batches": True}


def loading(**options):
    return {"dataloader_config": options}


def streamed(spec, **options):
    """The same job with its training data as a stream."""
    data = dict(spec["data"], streaming=options)
    if "bytes" not in data["train"]:
        data["train"] = {"file": "data/train.csv", "csv": {}}
    return {**spec, "data": data}


def without_epochs(spec):
    return {**spec, "loop": {key: value for key, value in spec["loop"].items() if key != "num_epochs"}}


# name -> (spec, accelerator). The training file has 130 samples: the last round of an epoch is short.
JOBS = {
    "stream": (streamed(job(mlp(0.1), {"adamw": {"lr": 0.01}})), {}),
    "stream_in_shards": (streamed(job(mlp(0.1), {"adamw": {"lr": 0.01}})), loading(dispatch_batches=False)),
    "stream_shuffled": (
        streamed(job(mlp(0.1), {"sgd": {"lr": 0.02, "momentum": 0.9}}), shuffle_buffer=40),
        loading(data_seed=5),
    ),
    "stream_shuffled_shards_max_steps": (
        streamed(
            without_epochs(job(mlp(0.1), {"adam": {"lr": 0.01}}, schedule={"linear": {"warmup_steps": 6}}, max_steps=25)),
            shuffle_buffer=16,
        ),
        loading(dispatch_batches=False),
    ),
    "stream_split_batches_dropping_the_last": (
        streamed(job(mlp(), {"sgd": {"lr": 0.1}}, data={"drop_last": True, "num_workers": 2})),
        loading(split_batches=True),
    ),
    "stream_split_shards": (
        streamed(job(mlp(0.1), {"sgd": {"lr": 0.1}})),
        loading(split_batches=True, dispatch_batches=False),
    ),
    "stream_accumulation": (
        streamed(
            job(mlp(0.1), {"adamw": {"lr": 0.02}}, epochs=5, schedule={"constant": {"warmup_steps": 9}}),
            shuffle_buffer=40,
        ),
        {"gradient_accumulation_plugin": {"num_steps": 4, "adjust_scheduler": False}},
    ),
    "stream_accumulation_max_steps_adjusted_schedule": (
        streamed(job(mlp(), {"sgd": {"lr": 0.1}}, epochs=9, schedule={"cosine": {}}, max_steps=13)),
        {"gradient_accumulation_plugin": {"num_steps": 3}},
    ),
    "stream_of_text": (
        streamed(gpt_job({"adamw": {"lr": 0.003}}, clipping={"max_norm": 1.0}), shuffle_buffer=7),
        loading(data_seed=3),
    ),
    "dispatched_seedable": (
        job(mlp(0.1), {"adamw": {"lr": 0.01}}, schedule={"linear": {}}),
        loading(**SEEDABLE["dataloader_config"], **DISPATCHED),
    ),
    "dispatched_running_order_with_workers": (
        job(mlp(0.1), {"adam": {"lr": 0.01}}, data={"num_workers": 3, "prefetch_factor": 1}),
        loading(**DISPATCHED),
    ),
    "dispatched_convnet_split_batches": (
        job(CONVNET, {"sgd": {"lr": 0.05, "momentum": 0.9}}, data={**PICTURES, "evaluation_batch_size": 10}),
        loading(split_batches=True, **DISPATCHED),
    ),
    "workers": (job(mlp(0.1), {"adamw": {"lr": 0.01}}, data={"num_workers": 2}), SEEDABLE),
}


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    train = load_file(folder / "train.safetensors")
    table = np.column_stack([train["features"].numpy(), train["targets"].numpy()])
    np.savetxt(folder / "train.csv", table, "%.9g", ",")
    return folder


@pytest.mark.parametrize("name", JOBS)
def test_equals_accelerate(name, peer, data_folder, tmp_path):  # noqa: F811
    world_size, peer_folder = peer
    spec, accelerator = JOBS[name]
    ranks = worker_harness.train(spec, data_folder, world_size, accelerator, checkpoints=tmp_path)
    assert_equal_evaluations(ranks, assert_equal_training(ranks, peer_folder / name, tmp_path))


# In the middle of an epoch, with what reads ahead or draws from a buffer.
RESUMED = [
    "stream_shuffled",
    "stream_shuffled_shards_max_steps",
    "stream_accumulation",
    "dispatched_running_order_with_workers",
    "workers",
]


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_run_is_exact(name, data_folder, tmp_path):
    spec, accelerator = JOBS[name]
    spec = {**spec, "loop": {**spec["loop"], "checkpoint_every_steps": 3}}
    whole = worker_harness.train(spec, data_folder, 2, accelerator, checkpoints=tmp_path / "whole")
    assert worker_harness.finished(whole) == "yes"
    saved = whole[0].of("checkpoint")
    last = tmp_path / "whole" / str(saved[-1].number)
    for checkpoint in saved[1:3]:
        out = tmp_path / f"resumed_{checkpoint.number}"
        resumed = worker_harness.train(
            spec, data_folder, 2, accelerator, checkpoints=out, resume_dir=tmp_path / "whole" / str(checkpoint.number)
        )
        assert worker_harness.finished(resumed) == "yes"
        for before, after in zip(whole, resumed):
            assert after.losses() == before.losses()[checkpoint.step :]
        last_resumed = out / str(resumed[0].of("checkpoint")[-1].number)
        for file in last.glob("*.safetensors"):
            assert file.read_bytes() == (last_resumed / file.name).read_bytes(), file
