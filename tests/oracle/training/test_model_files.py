"""Model files between Accelerate's save_model, its loaders, PyTorch and accel-worker."""

import json
import pathlib
import sys

import pytest
import torch
import worker_harness
from accelerate import Accelerator, load_checkpoint_in_model
from safetensors.torch import load_file
from test_against_accelerate import CONVNET, PICTURES, gpt_job, job, make_data, mlp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import reference_models  # noqa: E402

SPECS = {
    "mlp": job(mlp(), {"sgd": {"lr": 0.1}}, max_steps=2),
    "convnet": job(CONVNET, {"sgd": {"lr": 0.1}}, data=PICTURES, max_steps=2),
    "gpt": gpt_job({"sgd": {"lr": 0.1}}, max_steps=2),
}


def module_of(spec):
    ((kind, fields),) = ((k, v) for k, v in spec["model"].items() if k != "init_from")
    return reference_models.build({kind: {"context_length": 32, **fields} if kind == "gpt" else fields})


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_data(folder)
    return folder


def contents(folder):
    """Tensors of each model file, and the index."""
    files = {path.name: load_file(path) for path in folder.glob("model*.safetensors")}
    index = folder / "model.safetensors.index.json"
    return files, json.loads(index.read_text()) if index.exists() else None


@pytest.mark.parametrize("size", ["10GB", "20KB", "4KB", "1KB"])
@pytest.mark.parametrize("name", SPECS)
def test_checkpoint_is_cut_as_save_model_cuts(name, size, data_folder, tmp_path):
    spec = SPECS[name]
    spec = {**spec, "loop": {**spec["loop"], "max_shard_size": size}}
    ranks = worker_harness.train(spec, data_folder, 1, checkpoints=tmp_path / "ours")
    assert worker_harness.finished(ranks) == "yes"
    ours = tmp_path / "ours" / "0"

    # As a script reads it.
    module = module_of(spec)
    load_checkpoint_in_model(module, ours)
    Accelerator(cpu=True).save_model(module, tmp_path / "theirs", max_shard_size=size)
    files, index = contents(ours)
    their_files, their_index = contents(tmp_path / "theirs")
    assert files.keys() == their_files.keys()
    assert (index is None) == (len(files) == 1)
    if size in ("10GB", "1KB"):
        assert (index is None) == (size == "10GB")
    for file, tensors in their_files.items():
        assert files[file].keys() == tensors.keys(), file
        assert all(torch.equal(files[file][key], tensor) for key, tensor in tensors.items())
    if index is not None:
        assert index["weight_map"] == their_index["weight_map"]
        assert index["metadata"]["total_size"] == their_index["metadata"]["total_size"]


@pytest.mark.parametrize("size", ["10GB", "4KB"])
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_saved_model_is_what_a_job_starts_from(name, size, dtype, data_folder, tmp_path):
    torch.manual_seed(99)
    module = module_of(SPECS[name]).to(dtype)
    folder = data_folder / tmp_path.name
    Accelerator(cpu=True).save_model(module, folder, max_shard_size=size)
    spec = SPECS[name]
    spec = {**spec, "optimizer": {"sgd": {"lr": 0}}, "model": {**spec["model"], "init_from": f"data/{folder.name}"}}
    ranks = worker_harness.train(spec, data_folder, 2, checkpoints=tmp_path)
    assert worker_harness.finished(ranks) == "yes"
    ours = load_file(tmp_path / "0" / "model.safetensors")
    assert ours.keys() == module.state_dict().keys()
    for key, parameter in module.named_parameters():
        assert ours[key].dtype == torch.float32
        assert torch.equal(ours[key], parameter.float()), key


def test_one_file_may_be_named(data_folder, tmp_path):
    torch.manual_seed(98)
    module = module_of(SPECS["mlp"])
    Accelerator(cpu=True).save_model(module, data_folder / tmp_path.name)
    spec = {**SPECS["mlp"], "optimizer": {"sgd": {"lr": 0}}}
    spec["model"] = {**spec["model"], "init_from": f"data/{tmp_path.name}/model.safetensors"}
    ranks = worker_harness.train(spec, data_folder, 1, checkpoints=tmp_path)
    assert worker_harness.finished(ranks) == "yes"
    ours = load_file(tmp_path / "0" / "model.safetensors")
    assert all(torch.equal(ours[key], tensor) for key, tensor in module.state_dict().items())


def test_weights_of_another_model_are_refused(data_folder, tmp_path):
    folder = data_folder / tmp_path.name
    Accelerator(cpu=True).save_model(module_of(SPECS["convnet"]), folder)
    spec = SPECS["mlp"]
    spec = {**spec, "model": {**spec["model"], "init_from": f"data/{folder.name}"}}
    ranks = worker_harness.train(spec, data_folder, 1, checkpoints=tmp_path)
    assert "is of another model: missing: 1.weight Float [48, 64]" in worker_harness.finished(ranks)
