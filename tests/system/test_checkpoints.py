"""What a checkpoint holds, which ones are kept, and what a job does with one that does not fit."""

import json
import pathlib
import shutil

import pytest
import safetensors.torch
import torch
from conftest import blobs_spec


def newest_first(daemon, job):
    return daemon.json("checkpoints", job)["checkpoints"]


@pytest.fixture(scope="module")
def saved(daemon):
    """Checkpoints of a job of two ranks with 16 steps an epoch: step -> checkpoint."""
    spec = blobs_spec(epochs=2, checkpoint_every_steps=4, max_shard_size="300")
    spec["data"]["batch_size"] = 5
    spec["accelerator"] = {"project_config": {"iteration": 5}}
    daemon.submit(spec, "saved")
    daemon.wait_state("saved", "SUCCEEDED")
    return {int(c["step"]): c for c in newest_first(daemon, "saved")}


def resume(daemon, checkpoint, job, changes=None, ranks=2):
    spec = blobs_spec(ranks=ranks, epochs=2)
    spec["data"]["batch_size"] = 5
    spec.update(changes or {})
    daemon.submit({**spec, "resume_from": checkpoint["name"]}, job)
    return daemon.wait_state(job, "SUCCEEDED", "FAILED")


def test_folder_holds_what_the_manifest_says(saved):
    assert sorted(saved) == [4, 8, 12, 16, 20, 24, 28, 32]
    assert [saved[step]["name"].rsplit("/", 1)[1] for step in (4, 32)] == ["5", "12"]
    folder = pathlib.Path(saved[8]["path"])
    manifest = json.loads((folder / "manifest.json").read_text())
    names = {path.name for path in folder.iterdir()}
    assert names == {file["path"] for file in manifest["files"]} | {"manifest.json"}
    assert {"optimizer.safetensors", "scheduler.json", "trainer_state.json"} <= names
    assert {"random_states_0.safetensors", "random_states_1.safetensors"} <= names
    assert int(saved[8]["bytes"]) == sum((folder / name).stat().st_size for name in names)

    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shards = {name for name in names if name.startswith("model-")}
    assert set(index["weight_map"].values()) == shards and len(shards) > 1
    weights = {}
    for shard in shards:
        weights.update(safetensors.torch.load_file(folder / shard))
    assert {name: list(tensor.shape) for name, tensor in weights.items()} == {
        "1.weight": [16, 8], "1.bias": [16], "3.weight": [3, 16], "3.bias": [3]}


def test_only_the_newest_are_kept(daemon):
    spec = blobs_spec(epochs=2, checkpoint_every_steps=3)
    spec["accelerator"] = {"project_config": {"total_limit": 2}}
    daemon.submit(spec, "limited")
    daemon.wait_state("limited", "SUCCEEDED")
    checkpoints = newest_first(daemon, "limited")
    assert [int(c["step"]) for c in checkpoints] == [16, 15]
    folder = pathlib.Path(checkpoints[0]["path"]).parent
    assert {path.name for path in folder.iterdir()} == {c["name"].rsplit("/", 1)[1] for c in checkpoints}


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_damaged_checkpoint_is_named(daemon, saved, damage):
    checkpoint = saved[{"flipped": 4, "truncated": 12, "missing": 20}[damage]]
    file = pathlib.Path(checkpoint["path"]) / "optimizer.safetensors"
    contents = bytearray(file.read_bytes())
    if damage == "flipped":
        contents[-9] ^= 16
    file.unlink()
    if damage != "missing":
        file.write_bytes(contents if damage == "flipped" else contents[:-1])
    failure = resume(daemon, checkpoint, f"from-{damage}")["failure"]
    assert failure["cause"] == "STORAGE"
    said = {"flipped": "has sha-256", "truncated": "its manifest says", "missing": "is missing"}[damage]
    assert "optimizer.safetensors" in failure["message"] and said in failure["message"], failure


def test_checkpoint_of_another_model(daemon, saved):
    wider = {"model": {"mlp": {"layer_sizes": [8, 17, 3]}}}
    failure = resume(daemon, saved[16], "of-another-model", wider)["failure"]
    assert failure["cause"] == "JOB"
    assert "1.weight is Float [16, 8] and must be Float [17, 8]" in failure["message"], failure


def test_another_world_size_only_between_epochs(daemon, saved):
    failure = resume(daemon, saved[8], "rank-less-inside", ranks=1)["failure"]
    assert failure["cause"] == "JOB"
    assert "world size is 2 in the checkpoint and 1 in the job" in failure["message"], failure
    job = resume(daemon, saved[16], "rank-less-between", ranks=1)
    assert job["state"] == "SUCCEEDED"
    assert int(job["progress"]["step"]) == 16 + 32, "the second epoch has 32 batches for one rank"


def test_weights_to_start_from(daemon, data_root, saved):
    shutil.copytree(saved[32]["path"], data_root / "trained")
    spec = blobs_spec(ranks=1, epochs=1)
    spec["model"]["init_from"] = "data/trained"
    spec["optimizer"] = {"sgd": {"lr": 0}}
    daemon.submit(spec, "started-from")
    daemon.wait_state("started-from", "SUCCEEDED")
    (checkpoint,) = newest_first(daemon, "started-from")
    mine = safetensors.torch.load_file(pathlib.Path(checkpoint["path"]) / "model.safetensors")
    for shard in (data_root / "trained").glob("model-*.safetensors"):
        for name, tensor in safetensors.torch.load_file(shard).items():
            assert torch.equal(mine[name], tensor), name
    spec["model"]["mlp"]["layer_sizes"] = [8, 15, 3]
    daemon.submit(spec, "started-from-another")
    failure = daemon.wait_state("started-from-another", "FAILED")["failure"]
    assert failure["cause"] == "JOB" and "data/trained is of another model" in failure["message"], failure


def test_stream_is_trained_on(daemon, data_root):
    spec = blobs_spec(epochs=3)
    del spec["data"]["split"]
    spec["data"].update(streaming={"shuffle_buffer": 50}, num_workers=1, evaluation=spec["data"]["train"])
    spec["data"]["train"] = {"file": "data/blobs.csv.gz", "csv": {}}
    daemon.submit(spec, "stream")
    job = daemon.wait_state("stream", "SUCCEEDED")
    assert int(job["progress"]["step"]) == 30, "200 samples are 10 rounds of 20"
    loss = daemon.accelctl("metrics", "stream", "--key", "eval/loss", "--csv").stdout.splitlines()
    assert len(loss) == 4

    lines = (data_root / "blobs.csv").read_text().splitlines()
    lines[150] = "1,2"
    (data_root / "broken.csv").write_text("\n".join(lines))
    spec["data"]["train"]["file"] = "data/broken.csv"
    daemon.submit(spec, "broken-stream")
    failure = daemon.wait_state("broken-stream", "FAILED")["failure"]
    assert failure["cause"] == "DATA" and "row 151" in failure["message"], failure
