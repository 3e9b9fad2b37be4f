"""Order, sharding and contents of batches against accelerate's prepared DataLoader."""

import gzip
import itertools
import pathlib
import subprocess
import sys

import engine
import numpy as np
import pytest
import torch
from accelerate import PartialState
from accelerate.data_loader import prepare_data_loader, skip_first_batches
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset, random_split

EPOCHS = 3


def job_for(folder, n, **data):
    """Samples whose only feature and target are their number."""
    numbers = torch.arange(n)
    save_file({"features": numbers.float().unsqueeze(1), "targets": numbers}, folder / "numbers.safetensors")
    train = {"file": "data/numbers.safetensors", "safetensors": {}}
    return {"data": {"train": train, **data}, "loss": {"cross_entropy": {}}}


def indices_of(batches):
    return {key: batch["targets"].tolist() for key, batch in batches.items()}


def accelerate_batches(n, batch_size, rank, world_size, shuffle, seedable, seed, split, even, drop_last, epochs=EPOCHS):
    PartialState(cpu=True)
    dataset = TensorDataset(torch.arange(n))
    generator = torch.Generator().manual_seed(seed)
    sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
    loader = prepare_data_loader(
        DataLoader(dataset, batch_size=batch_size, sampler=sampler, drop_last=drop_last),
        num_processes=world_size,
        process_index=rank,
        split_batches=split,
        put_on_device=False,
        even_batches=even,
        use_seedable_sampler=seedable,
        data_seed=seed,
        dispatch_batches=False,
    )
    return {
        (epoch, i): batch[0].tolist() for epoch in range(epochs) for i, batch in enumerate(loader)
    }


SIZES = [(10, 4, 2), (2, 4, 3), (12, 4, 2), (11, 4, 2), (13, 4, 3), (5, 4, 1), (30, 4, 4), (7, 8, 4), (9, 12, 2)]


@pytest.mark.parametrize("n,batch_size,world_size", SIZES)
@pytest.mark.parametrize("order", ["sequential", "seedable", "running"])
def test_order_and_sharding(n, batch_size, world_size, order, tmp_path):
    shuffle, seedable = order != "sequential", order == "seedable"
    settings = [
        (split, even, drop_last)
        for split, even, drop_last in itertools.product([False, True], repeat=3)
        if not split or batch_size % world_size == 0
    ]
    jobs = []
    for split, even, drop_last in settings:
        jobs.append(job_for(tmp_path, n, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last))
        config = {"split_batches": split, "even_batches": even, "use_seedable_sampler": seedable, "data_seed": 17}
        jobs[-1]["accelerator"] = {"dataloader_config": config}
    got = engine.dump_all_batches(tmp_path, jobs, "--world-size", world_size, "--epochs", EPOCHS)
    for (i, setting), rank in itertools.product(enumerate(settings), range(world_size)):
        want = accelerate_batches(n, batch_size, rank, world_size, shuffle, seedable, 17, *setting)
        assert indices_of(got.get((i, rank), {})) == want, (setting, rank)


def test_skipping_goes_on_in_the_same_epoch(tmp_path):
    job = job_for(tmp_path, 20, batch_size=2)
    job["accelerator"] = {"dataloader_config": {"use_seedable_sampler": True, "data_seed": 3}}
    whole = indices_of(engine.dump_all_batches(tmp_path, [job], "--world-size", 2)[0, 1])
    rest = engine.dump_all_batches(tmp_path, [job], "--world-size", 2, "--skip-batches", 2)
    rest = indices_of(rest[0, 1])
    assert rest == {key: value for key, value in whole.items() if key[1] >= 2}

    PartialState(cpu=True)
    loader = prepare_data_loader(
        DataLoader(TensorDataset(torch.arange(20)), batch_size=2, shuffle=True),
        num_processes=2, process_index=1, put_on_device=False, use_seedable_sampler=True, data_seed=3,
        dispatch_batches=False,
    )
    assert list(rest.values()) == [batch[0].tolist() for batch in skip_first_batches(loader, 2)]


@pytest.mark.parametrize("n,batch_size", [(10, 4), (3, 4), (16, 4), (9, 2)])
def test_counted_samples_are_those_of_gather_for_metrics(n, batch_size, tmp_path):
    out = tmp_path / "gathered.safetensors"
    peer = pathlib.Path(__file__).with_name("gather_peer.py")
    subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         peer, str(n), str(batch_size), out],
        check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    gathered = load_file(out)
    job = job_for(tmp_path, n, batch_size=batch_size, shuffle=False)
    dumped = engine.dump_all_batches(tmp_path, [job], "--world-size", 2)
    ranks = [dumped[0, 0], dumped[0, 1]]
    assert len(gathered) == len(ranks[0]) == len(ranks[1])
    for i in range(len(gathered)):
        counted = []
        for rank in ranks:
            batch = rank[0, i]
            counted += batch["targets"].tolist()[: batch["valid"].item()]
        assert counted == gathered[str(i)].tolist()


@pytest.mark.parametrize("n,fraction,seed", [(10, 0.25, 0), (101, 0.3, 7), (1000, 0.1, 123456789)])
def test_split(n, fraction, seed, tmp_path):
    job = job_for(tmp_path, n, batch_size=n, shuffle=False, split={"evaluation_fraction": fraction, "seed": seed})
    held_out = int(n * fraction)
    train, evaluation = random_split(range(n), [n - held_out, held_out], torch.Generator().manual_seed(seed))
    assert indices_of(engine.dump_batches(tmp_path, job))[0, 0] == list(train)
    assert indices_of(engine.dump_batches(tmp_path, job, "--evaluation"))[0, 0] == list(evaluation)


def one_batch(folder, train, loss, n):
    job = {"data": {"train": train, "batch_size": n, "shuffle": False}, "loss": loss}
    return engine.dump_batches(folder, job)[0, 0]


def test_csv_reads_what_numpy_reads(tmp_path):
    generator = np.random.default_rng(3)
    values = generator.standard_normal((200, 9)) * 10.0 ** generator.integers(-30, 30, (200, 9))
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        np.savetxt(file, values, delimiter=",", fmt="%.17g")
    train = {"file": "data/t.csv.gz", "csv": {}, "normalization": {"scale": 0.1, "mean": 0.3, "std": 0.7}}
    got = one_batch(tmp_path, train, {"mse": {}}, 200)
    table = torch.tensor(np.loadtxt(tmp_path / "t.csv.gz", delimiter=",")).float()
    assert torch.equal(got["features"], (table[:, :-1] * 0.1 - 0.3) / 0.7)
    assert torch.equal(got["targets"], table[:, -1])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_reads_what_numpy_writes(dtype, version, tmp_path):
    features = (np.arange(24).reshape(4, 3, 2) * 5).astype(dtype)
    targets = np.array([0, 1, 1, 0]).astype(dtype)
    for name, array in [("x.npy", features), ("y.npy", targets)]:
        with open(tmp_path / name, "wb") as file:
            np.lib.format.write_array(file, array, version=version)
    train = {"file": "data/x.npy", "npy": {"target_file": "data/y.npy"}}
    got = one_batch(tmp_path, train, {"cross_entropy": {}}, 4)
    assert torch.equal(got["features"], torch.from_numpy(features.astype("f4")))
    assert got["targets"].tolist() == [0, 1, 1, 0]


def test_bytes_are_windows(tmp_path):
    text = bytes(np.random.default_rng(4).integers(0, 256, 1000, dtype=np.uint8))
    (tmp_path / "t.bin").write_bytes(text)
    train = {"file": "data/t.bin", "bytes": {"sequence_length": 32, "stride": 7}}
    got = one_batch(tmp_path, train, {"next_token": {}}, 1000)
    windows = torch.tensor(list(text)).unfold(0, 33, 7)
    assert torch.equal(got["features"], windows[:, :-1])
    assert torch.equal(got["targets"], windows[:, 1:])


def test_safetensors_are_written_as_python_writes_them(tmp_path):
    job = job_for(tmp_path, 5, batch_size=2, shuffle=False)
    engine.dump_batches(tmp_path, job)
    written = tmp_path / "output.safetensors"
    save_file(load_file(written), tmp_path / "again.safetensors", metadata={"format": "pt"})
    assert written.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
