"""Batches of streams, and batches that rank 0 deals out, against accelerate's loaders on several ranks."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import engine
import numpy as np
import pytest

PEER = pathlib.Path(__file__).with_name("loader_peer.py")
EPOCHS = 2
SEED = 17

# world size -> (samples, batch size)
SIZES = {
    2: [(10, 4), (12, 4), (14, 4), (16, 4), (9, 4), (17, 4), (3, 4), (2, 4)],
    3: [(13, 6), (18, 6), (19, 6), (37, 6), (5, 6)],
}


def settings_for(world_size, order, dispatch, shuffle_buffer=0):
    """Every setting that Accelerate can load: an epoch without a round it cannot."""
    for (samples, size), split, drop in itertools.product(SIZES[world_size], [False, True], [False, True]):
        if drop and samples < size * (1 if split else world_size):
            continue
        yield {
            "samples": samples,
            "batch_size": size,
            "order": order,
            "shuffle_buffer": shuffle_buffer,
            "seed": SEED,
            "epochs": EPOCHS,
            "drop_last": drop,
            "split_batches": split,
            "dispatch_batches": dispatch,
        }


def all_settings(world_size):
    return [
        *settings_for(world_size, "sequential", True),
        *settings_for(world_size, "seedable", True),
        *settings_for(world_size, "running", True),
        *settings_for(world_size, "stream", None),
        *settings_for(world_size, "stream", None, shuffle_buffer=5),
        *settings_for(world_size, "stream", False),
        *settings_for(world_size, "stream", False, shuffle_buffer=5),
    ]


def job_for(setting, folder):
    """The same as a job; the only feature and the target of a sample are its number."""
    name = f"numbers{setting['samples']}.csv"
    np.savetxt(folder / name, np.repeat(np.arange(setting["samples"]), 2).reshape(-1, 2), "%d", ",")
    data = {"train": {"file": f"data/{name}", "csv": {}}, "batch_size": setting["batch_size"]}
    data["drop_last"] = setting["drop_last"]
    loading = {"split_batches": setting["split_batches"], "data_seed": setting["seed"]}
    if setting["dispatch_batches"] is not None:
        loading["dispatch_batches"] = setting["dispatch_batches"]
    if setting["order"] == "stream":
        buffer = setting["shuffle_buffer"]
        data["streaming"] = {"shuffle_buffer": buffer} if buffer else {}
    else:
        data["shuffle"] = setting["order"] != "sequential"
        loading["use_seedable_sampler"] = setting["order"] == "seedable"
    return {"data": data, "loss": {"cross_entropy": {}}, "accelerator": {"dataloader_config": loading}}


@pytest.mark.parametrize("world_size", SIZES)
def test_batches_are_accelerates(world_size, tmp_path):
    settings = all_settings(world_size)
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(
        [*launch, PEER, tmp_path / "settings.json", tmp_path], check=True, timeout=300, env=environment
    )
    theirs = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world_size)]

    jobs = [job_for(setting, tmp_path) for setting in settings]
    # Threads that read ahead change nothing.
    for job, workers in zip(jobs, itertools.cycle([0, 1, 3])):
        job["data"]["num_workers"] = workers
    ours = engine.dump_all_batches(tmp_path, jobs, "--world-size", world_size, "--epochs", EPOCHS)
    for i, setting in enumerate(settings):
        ranks = [ours.get((i, rank), {}) for rank in range(world_size)]
        for rank, mine in enumerate(ranks):
            want = {(b["epoch"], b["batch"]): (b["samples"], b["last"]) for b in theirs[rank][i]}
            got = {key: (batch["targets"].tolist(), batch["last"].item()) for key, batch in mine.items()}
            assert got == want, (setting, rank)
            assert all(batch["features"].flatten().tolist() == batch["targets"].tolist() for batch in mine.values())
        if setting["order"] == "stream" and setting["dispatch_batches"] is False:
            continue  # the script knows no length and keeps all
        for batch in theirs[0][i]:
            counted = []
            for mine in ranks:
                dumped = mine[batch["epoch"], batch["batch"]]
                counted += dumped["targets"].tolist()[: dumped["valid"].item()]
            assert counted == batch["kept"], (setting, batch)


def test_a_stream_goes_on_in_the_middle_of_an_epoch(tmp_path):
    for dispatch, workers in itertools.product([None, False], [0, 2]):
        setting = next(s for s in settings_for(2, "stream", dispatch, shuffle_buffer=5) if s["samples"] == 17)
        job = job_for({**setting, "batch_size": 2}, tmp_path)
        job["data"]["num_workers"] = workers
        options = ["--world-size", 2, "--epochs", 2]
        whole = engine.dump_all_batches(tmp_path, [job], *options)
        rest = engine.dump_all_batches(tmp_path, [job], *options, "--skip-batches", 3)
        for rank in range(2):
            assert {key for key in rest[0, rank]} == {key for key in whole[0, rank] if key[1] >= 3}
            for key, batch in rest[0, rank].items():
                same = whole[0, rank][key]
                assert all(batch[part].tolist() == same[part].tolist() for part in batch), key
        assert whole[0, 0][0, 0]["targets"].tolist() != whole[0, 0][1, 0]["targets"].tolist()


@pytest.mark.parametrize("format_name", ["csv", "csv.gz", "npy", "bytes"])
def test_a_stream_has_the_samples_of_the_file_in_memory(format_name, tmp_path):
    numbers = np.random.default_rng(5)
    table = np.column_stack([numbers.standard_normal((50, 6)).astype("f4"), numbers.integers(0, 3, 50)])
    loss = {"cross_entropy": {}}
    shape = {"normalization": {"scale": 0.5, "mean": 0.1, "std": 3}, "feature_shape": [2, 3]}
    if format_name.startswith("csv"):
        np.savetxt(tmp_path / f"t.{format_name}", table, "%.9g", ",")
        train = {"file": f"data/t.{format_name}", "csv": {}, **shape}
    elif format_name == "npy":
        np.save(tmp_path / "t.npy", table)
        train = {"file": "data/t.npy", "npy": {}, **shape}
    else:
        (tmp_path / "t.bin").write_bytes(numbers.integers(0, 256, 300_000, dtype=np.uint8).tobytes())
        train = {"file": "data/t.bin", "bytes": {"sequence_length": 1000, "stride": 1700}}
        loss = {"next_token": {}}
    job = {"data": {"train": train, "batch_size": 7, "shuffle": False}, "loss": loss}
    streamed = {**job, "data": {**job["data"], "streaming": {}}}
    got = engine.dump_all_batches(tmp_path, [job, streamed])
    assert got[0, 0].keys() == got[1, 0].keys() and len(got[0, 0]) > 7
    for key, batch in got[0, 0].items():
        for part, tensor in batch.items():
            assert got[1, 0][key][part].equal(tensor), (key, part)
