"""Mistakes are refused before anything starts, all of them at once, each with its field's path."""

import copy
import shutil
import subprocess

import pytest
import yaml

from conftest import BIN, blobs_spec

CASES = {
    "unknown model": ({"model": {"resnet": {}}}, "model.resnet", "mlp, convnet, gpt"),
    "no ranks": ({"num_processes": 0}, "num_processes", "1 to"),
    "too many ranks": ({"num_processes": 10000}, "num_processes", "10000"),
    "missing file": ({"data.train.file": "data/nothing.csv"}, "data.train.file", "nothing.csv"),
    "unknown root": ({"data.train.file": "elsewhere/blobs.csv"}, "data.train.file", "datasets"),
    "path above the root": ({"data.train.file": "data/../../etc/passwd"}, "data.train.file", ".."),
    "absolute path": ({"data.train.file": "/etc/passwd"}, "data.train.file", "/etc/passwd"),
    "link out of the root": ({"data.train.file": "data/link.csv"}, "data.train.file", "leaves"),
    "handler value": ({"accelerator.scaler_kwargs": {"growth_factor": 1}},
                      "accelerator.scaler_kwargs.growth_factor", "above 1"),
    "handler choice": ({"accelerator.ddp_kwargs": {"comm_hook": "fp8"}},
                       "accelerator.ddp_kwargs.comm_hook", "power_sgd"),
    "unknown option": ({"accelerator.ddp_kwargs": {"bucket_cap": 3}},
                       "accelerator.ddp_kwargs.bucket_cap", "bucket_cap_mb"),
    "wrong type": ({"data.batch_size": "many"}, "data.batch_size", "many"),
    "no end": ({"loop": {}}, "loop", "num_epochs"),
    "fp16 on cpu": ({"accelerator.mixed_precision": "fp16"}, "accelerator.mixed_precision", "emulate_fp16 true"),
    "fp16 on no gpu": ({"accelerator.mixed_precision": "fp16", "device": "cuda"}, "device", "no CUDA device"),
    "bf16 on no gpu": ({"accelerator.mixed_precision": "bf16", "device": "cuda"}, "device", "no CUDA device"),
    "emulated bf16": ({"accelerator": {"mixed_precision": "bf16", "emulate_fp16": True}},
                      "accelerator.emulate_fp16", "only allowed with mixed_precision \"fp16\""),
    "guard of no cast": ({"accelerator.ddp_kwargs": {"comm_hook": "power_sgd", "comm_hook_overflow_guard": True}},
                         "accelerator.ddp_kwargs.comm_hook_overflow_guard", "comm_hook fp16 or bf16"),
    "clipped l-bfgs": ({"optimizer": {"lbfgs": {}}, "loop.clipping": {"max_norm": 1}},
                       "loop.clipping", "not allowed with optimizer.lbfgs"),
    "plateau of nothing": ({"schedule": {"reduce_on_plateau": {"metric": "eval/perplexity"}}},
                           "schedule.reduce_on_plateau.metric", "loss.next_token"),
    "momentum of none": ({"optimizer": {"adagrad": {}}, "schedule": {"one_cycle": {}}},
                         "schedule.one_cycle.cycle_momentum", "needs an optimizer with a momentum"),
    "early stop of another loss": ({"loop.early_stopping": [{"metric": "eval/perplexity", "patience": 2}]},
                                   "loop.early_stopping[0].metric", "needs loss.next_token"),
    "early stop without a condition": ({"loop.early_stopping": [{"metric": "train/loss"}]},
                                       "loop.early_stopping[0]", "patience, threshold or both"),
    "local sgd with a hook": ({"loop.local_sgd_steps": 4, "accelerator.ddp_kwargs": {"comm_hook": "fp16"}},
                              "loop.local_sgd_steps", "no gradient is communicated"),
    "averaging": ({"loss.averaging": "tokens"}, "loss.averaging", "num_steps, micro_batches, items"),
    "stream without an end": ({"data.split": None, "data.streaming": {}, "schedule": {"linear": {}}},
                              "schedule.linear.total_steps", "length of the job is not known"),
    "shuffled stream": ({"data.split": None, "data.streaming": {}, "data.shuffle": True}, "data.shuffle",
                        "shuffle_buffer"),
    "split stream": ({"data.streaming": {}}, "data.split", "not allowed with streaming"),
    "pinned memory on cpu": ({"data.pin_memory": True}, "data.pin_memory", "CPU"),
    "prefetch without workers": ({"data.prefetch_factor": 4}, "data.prefetch_factor", "num_workers"),
    "size of shards": ({"loop.max_shard_size": "10 boxes"}, "loop.max_shard_size", "MiB"),
    "initial weights": ({"model.init_from": "data/blobs.csv/model"}, "model.init_from", "blobs.csv"),
    "initial weights elsewhere": ({"model.init_from": "data/../model"}, "model.init_from", ".."),
    "no secret for a tracker": ({"tracking": {"trackers": [{"wandb": {}}]}}, "tracking.trackers[0].wandb",
                                "WANDB_API_KEY"),
}


def changed(spec, changes):
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *parents, last = path.split(".")
        target = spec
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is None:
            del target[last]
        else:
            target[last] = value
    return spec


@pytest.mark.parametrize("name", CASES)
def test_refused_with_the_fields_path(daemon, data_root, name):
    link = data_root / "link.csv"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    changes, path, allowed = CASES[name]
    spec = yaml.safe_dump(changed(blobs_spec(), changes))
    for command in (("submit", "-", "--id", "refused"), ("validate", "-")):
        result = daemon.accelctl(*command, input=spec, check=False)
        assert result.returncode == 2, (result.stdout, result.stderr)
        assert path in result.stderr and allowed in result.stderr, result.stderr
    assert daemon.accelctl("get", "refused", check=False).returncode == 4


def test_all_mistakes_at_once(daemon):
    spec = changed(blobs_spec(), {"num_processes": 0, "data.batch_size": 0, "optimizer": {"sgd": {"lr": -1}}})
    result = daemon.accelctl("validate", "-", input=yaml.safe_dump(spec), check=False)
    for path in ("num_processes", "data.batch_size", "optimizer.sgd.lr"):
        assert path in result.stderr


def test_not_implemented_is_named(daemon):
    for changes, feature in (
        ({"accelerator.mixed_precision": "fp8"}, "accelerator.mixed_precision"),
        ({"accelerator.profile_kwargs": {}}, "accelerator.profile_kwargs"),
    ):
        result = daemon.accelctl("validate", "-", input=yaml.safe_dump(changed(blobs_spec(), changes)), check=False)
        assert result.returncode == 6, result.stderr
        assert feature in result.stderr


def test_job_id_used_twice(daemon):
    daemon.submit(blobs_spec(), "twice")
    again = daemon.accelctl("submit", "-", "--id", "twice", input=yaml.safe_dump(blobs_spec()), check=False)
    assert again.returncode == 5
    assert "twice" in again.stderr
    daemon.wait_state("twice", "SUCCEEDED")


def test_valid_job_is_not_started_by_validate(daemon):
    before = len(daemon.json("list").get("jobs", []))
    daemon.accelctl("validate", "-", input=yaml.safe_dump(blobs_spec()))
    assert len(daemon.json("list").get("jobs", [])) == before


def test_start_without_a_program_says_how_to_name_it(tmp_path):
    shutil.copy(BIN / "accelctl", tmp_path)
    result = subprocess.run([tmp_path / "accelctl", "daemon", "start"], capture_output=True, text=True, timeout=30,
                            env={"HOME": str(tmp_path), "PATH": "/usr/bin"})
    assert result.returncode == 5
    assert f"neither in {tmp_path} nor on PATH; name it with --program" in result.stderr
