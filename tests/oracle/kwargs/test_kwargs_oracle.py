"""Compares `accelctl kwargs` with Accelerate's own handlers, built from the same input."""

import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest
from accelerate.utils import dataclasses as handlers

BIN_DIR = pathlib.Path(
    os.environ.get("ACCEL_BIN_DIR", pathlib.Path(__file__).resolve().parents[3] / "build/bin")
)

# Field of AcceleratorConfig that holds each of Accelerate's classes.
FIELDS = {
    handlers.AutocastKwargs: "autocast_kwargs",
    handlers.DistributedDataParallelKwargs: "ddp_kwargs",
    handlers.GradScalerKwargs: "scaler_kwargs",
    handlers.InitProcessGroupKwargs: "init_process_group_kwargs",
    handlers.ProfileKwargs: "profile_kwargs",
    handlers.TERecipeKwargs: "te_recipe_kwargs",
    handlers.AORecipeKwargs: "ao_recipe_kwargs",
    handlers.MSAMPRecipeKwargs: "msamp_recipe_kwargs",
    handlers.FP8RecipeKwargs: "fp8_recipe_kwargs",
    handlers.GradientAccumulationPlugin: "gradient_accumulation_plugin",
    handlers.DataLoaderConfiguration: "dataloader_config",
    handlers.ProjectConfiguration: "project_config",
}
FP8 = {
    handlers.TERecipeKwargs,
    handlers.AORecipeKwargs,
    handlers.MSAMPRecipeKwargs,
    handlers.FP8RecipeKwargs,
}
# What to_kwargs() leaves out because it is registered after construction; shown by accelctl.
HOOK_FIELDS = ("comm_hook", "comm_wrapper", "comm_state_option")
# Explicit values that to_kwargs() loses when they equal the class default; kept by accelctl.
KEPT_FIELDS = ("timeout", "fp8_format", "amax_compute_algo")


@dataclasses.dataclass
class Float8LinearConfig:
    """Stands in for torchao's class: to_kwargs() needs equality only."""

    pad_inner_dim: bool = False
    enable_fsdp_float8_all_gather: bool = False
    emulate: bool = False


@pytest.fixture(autouse=True)
def upstream(monkeypatch):
    """Lets Accelerate build handlers of packages that are not installed, without its environment."""
    for name in [name for name in os.environ if name.startswith("ACCELERATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(handlers, "is_transformer_engine_available", lambda: True)
    monkeypatch.setattr(handlers, "is_torchao_available", lambda: True)
    monkeypatch.setattr(handlers, "is_msamp_available", lambda: False)
    torchao, float8 = types.ModuleType("torchao"), types.ModuleType("torchao.float8")
    float8.Float8LinearConfig = Float8LinearConfig
    monkeypatch.setitem(sys.modules, "torchao", torchao)
    monkeypatch.setitem(sys.modules, "torchao.float8", float8)


def accelctl(*arguments, stdin=None):
    return subprocess.run(
        [BIN_DIR / "accelctl", *arguments], input=stdin, capture_output=True, text=True, timeout=60
    )


def difference_of(config, device):
    result = accelctl("kwargs", "diff", "-", "--device", device, "-o", "json",
                      stdin=json.dumps(config))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def build(cls, arguments):
    """Accelerate's object for arguments as they stand in a job file."""
    converted = dict(arguments)
    if cls is handlers.InitProcessGroupKwargs and "timeout" in arguments:
        converted["timeout"] = datetime.timedelta(seconds=arguments["timeout"])
    for name in ("comm_hook", "comm_wrapper"):
        if name in arguments:
            converted[name] = handlers.DDPCommunicationHookType(arguments[name])
    if "override_linear_precision" in arguments:
        converted["override_linear_precision"] = tuple(arguments["override_linear_precision"])
    if "config" in arguments:
        converted["config"] = Float8LinearConfig(**arguments["config"])
    return cls(**converted)


def to_kwargs(instance):
    """to_kwargs(), by the same rule for the two classes that are plain data classes."""
    if hasattr(instance, "to_kwargs"):
        return instance.to_kwargs()
    default = vars(type(instance)())
    return {name: value for name, value in vars(instance).items() if value != default[name]}


def as_json(value):
    """A value of Accelerate's as accelctl prints it."""
    if isinstance(value, datetime.timedelta):
        seconds = value.total_seconds()
        return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds:.3f}s"
    if isinstance(value, handlers.DDPCommunicationHookType):
        return value.value
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value


def numbers(value):
    """Undoes JSON's text form of 64-bit integers."""
    if isinstance(value, dict):
        return {name: numbers(item) for name, item in value.items()}
    return int(value) if isinstance(value, str) and value.isdigit() else value


CASES = [
    (handlers.AutocastKwargs, {}),
    (handlers.AutocastKwargs, {"enabled": True}),
    (handlers.AutocastKwargs, {"enabled": False}),
    (handlers.AutocastKwargs, {"cache_enabled": True}),
    (handlers.AutocastKwargs, {"cache_enabled": False}),
    (handlers.AutocastKwargs, {"enabled": False, "cache_enabled": False}),
    (handlers.DistributedDataParallelKwargs, {}),
    (handlers.DistributedDataParallelKwargs, {"dim": 0, "bucket_cap_mb": 25}),
    (handlers.DistributedDataParallelKwargs, {"dim": 1}),
    (handlers.DistributedDataParallelKwargs, {"broadcast_buffers": True}),
    (handlers.DistributedDataParallelKwargs, {"broadcast_buffers": False}),
    (handlers.DistributedDataParallelKwargs, {"bucket_cap_mb": 1}),
    (handlers.DistributedDataParallelKwargs, {"find_unused_parameters": True}),
    (handlers.DistributedDataParallelKwargs, {"check_reduction": True}),
    (handlers.DistributedDataParallelKwargs, {"gradient_as_bucket_view": True}),
    (handlers.DistributedDataParallelKwargs, {"static_graph": True, "dim": 0}),
    (handlers.DistributedDataParallelKwargs, {"comm_hook": "no"}),
    (handlers.DistributedDataParallelKwargs, {"comm_hook": "fp16", "comm_wrapper": "bf16"}),
    (handlers.DistributedDataParallelKwargs,
     {"comm_hook": "power_sgd", "comm_state_option": {"matrix_approximation_rank": 2},
      "bucket_cap_mb": 50}),
    (handlers.DistributedDataParallelKwargs, {"comm_hook": "batched_power_sgd"}),
    (handlers.GradScalerKwargs, {}),
    (handlers.GradScalerKwargs, {"init_scale": 65536.0, "growth_factor": 2.0}),
    (handlers.GradScalerKwargs, {"init_scale": 1024.0}),
    (handlers.GradScalerKwargs, {"growth_factor": 1.5, "backoff_factor": 0.25}),
    (handlers.GradScalerKwargs, {"growth_interval": 100}),
    (handlers.GradScalerKwargs, {"enabled": False, "backoff_factor": 0.5}),
    (handlers.InitProcessGroupKwargs, {}),
    (handlers.InitProcessGroupKwargs, {"backend": "nccl"}),
    (handlers.InitProcessGroupKwargs, {"backend": "gloo"}),
    (handlers.InitProcessGroupKwargs, {"backend": "cpu:gloo,cuda:nccl"}),
    (handlers.InitProcessGroupKwargs, {"timeout": 600}),
    (handlers.InitProcessGroupKwargs, {"timeout": 1800}),
    (handlers.InitProcessGroupKwargs, {"timeout": 0.25}),
    (handlers.InitProcessGroupKwargs, {"backend": "gloo", "timeout": 600}),
    (handlers.InitProcessGroupKwargs, {"backend": "gloo", "timeout": 1800}),
    (handlers.InitProcessGroupKwargs, {"backend": "nccl", "timeout": 1800}),
    (handlers.InitProcessGroupKwargs, {"init_method": "env://"}),
    (handlers.ProfileKwargs, {}),
    (handlers.ProfileKwargs, {"activities": ["cpu"]}),
    (handlers.ProfileKwargs, {"activities": ["cpu", "cuda"], "record_shapes": False}),
    (handlers.ProfileKwargs,
     {"schedule_option": {"wait": 1, "warmup": 1, "active": 3, "repeat": 0, "skip_first": 1}}),
    (handlers.ProfileKwargs, {"record_shapes": True, "profile_memory": True}),
    (handlers.ProfileKwargs, {"with_stack": True, "with_flops": True, "with_modules": True}),
    (handlers.TERecipeKwargs, {}),
    (handlers.TERecipeKwargs, {"margin": 0, "interval": 1, "amax_history_len": 1024}),
    (handlers.TERecipeKwargs, {"margin": 2, "interval": 4}),
    (handlers.TERecipeKwargs, {"use_autocast_during_eval": True}),
    (handlers.TERecipeKwargs, {"fp8_format": "e4m3"}),
    (handlers.TERecipeKwargs, {"fp8_format": "Hybrid"}),
    (handlers.TERecipeKwargs, {"amax_history_len": 16, "amax_compute_algo": "MAX"}),
    (handlers.TERecipeKwargs, {"amax_compute_algo": "most_recent"}),
    (handlers.TERecipeKwargs, {"override_linear_precision": [False, False, False]}),
    (handlers.TERecipeKwargs, {"override_linear_precision": [False, False, True]}),
    (handlers.TERecipeKwargs, {"use_mxfp8_block_scaling": True, "fp8_format": "HYBRID"}),
    (handlers.AORecipeKwargs, {}),
    (handlers.AORecipeKwargs, {"pad_inner_dim": True}),
    (handlers.AORecipeKwargs, {"pad_inner_dim": False}),
    (handlers.AORecipeKwargs, {"enable_fsdp_float8_all_gather": False}),
    (handlers.AORecipeKwargs, {"config": {"pad_inner_dim": True, "emulate": True,
                                          "enable_fsdp_float8_all_gather": False}}),
    (handlers.MSAMPRecipeKwargs, {}),
    (handlers.MSAMPRecipeKwargs, {"opt_level": "O1"}),
    (handlers.MSAMPRecipeKwargs, {"opt_level": "O2"}),
    (handlers.FP8RecipeKwargs, {}),
    (handlers.FP8RecipeKwargs, {"backend": "te"}),
    (handlers.FP8RecipeKwargs, {"backend": "msamp", "opt_level": "O2"}),
    (handlers.FP8RecipeKwargs, {"backend": "MSAMP", "opt_level": "O1"}),
    (handlers.FP8RecipeKwargs, {"margin": 1, "fp8_format": "E5M2", "amax_compute_algo": "max"}),
    (handlers.GradientAccumulationPlugin, {}),
    (handlers.GradientAccumulationPlugin, {"num_steps": 1}),
    (handlers.GradientAccumulationPlugin, {"num_steps": 4, "adjust_scheduler": True}),
    (handlers.GradientAccumulationPlugin, {"adjust_scheduler": False, "sync_each_batch": True}),
    (handlers.GradientAccumulationPlugin, {"sync_with_dataloader": False}),
    (handlers.DataLoaderConfiguration, {}),
    (handlers.DataLoaderConfiguration, {"split_batches": True, "even_batches": False}),
    (handlers.DataLoaderConfiguration, {"dispatch_batches": False}),
    (handlers.DataLoaderConfiguration, {"dispatch_batches": True, "non_blocking": True}),
    (handlers.DataLoaderConfiguration, {"use_seedable_sampler": True, "data_seed": 7}),
    (handlers.DataLoaderConfiguration, {"use_stateful_dataloader": True}),
    (handlers.ProjectConfiguration, {}),
    (handlers.ProjectConfiguration, {"automatic_checkpoint_naming": True, "iteration": 0}),
    (handlers.ProjectConfiguration, {"total_limit": 3, "iteration": 2}),
    (handlers.ProjectConfiguration, {"save_on_each_node": True}),
]


def config_of(cls, arguments):
    config = {FIELDS[cls]: arguments}
    if cls in FP8:
        config["mixed_precision"] = "fp8"
    return config


def name_of(value):
    return value.__name__ if isinstance(value, type) else json.dumps(value)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("cls, arguments", CASES, ids=name_of)
def test_difference_is_to_kwargs(cls, arguments):
    instance = build(cls, arguments)
    expected = {name: as_json(value) for name, value in to_kwargs(instance).items()}
    if cls is handlers.DistributedDataParallelKwargs:
        assert not set(HOOK_FIELDS) & set(expected)
        default = cls()
        for name in HOOK_FIELDS:
            if getattr(instance, name) != getattr(default, name):
                expected[name] = as_json(getattr(instance, name))
    if cls is handlers.AORecipeKwargs:
        if "config" not in arguments:
            expected.pop("config", None)  # built by the constructor from the two flags
        expected = {name: value for name, value in expected.items() if value is not None}
    for name in KEPT_FIELDS:
        if name in arguments:
            expected[name] = as_json(getattr(instance, name))

    found = difference_of(config_of(cls, arguments), "cuda")
    assert numbers(found[FIELDS[cls]]) == expected


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("cls, arguments, lost", [
    (handlers.InitProcessGroupKwargs, {"timeout": 600}, "timeout"),
    (handlers.InitProcessGroupKwargs, {"backend": "gloo", "timeout": 600}, "timeout"),
    (handlers.TERecipeKwargs, {"fp8_format": "HYBRID"}, "fp8_format"),
    (handlers.TERecipeKwargs, {"amax_compute_algo": "most_recent"}, "amax_compute_algo"),
    (handlers.FP8RecipeKwargs, {"fp8_format": "HYBRID"}, "fp8_format"),
    (handlers.FP8RecipeKwargs, {"amax_compute_algo": "most_recent"}, "amax_compute_algo"),
], ids=name_of)
def test_keeps_what_upstream_loses(cls, arguments, lost):
    arguments_of_default = to_kwargs(build(cls, arguments))
    if "backend" in arguments:
        # Accelerate's comparison is with the timeout of the class's own backend.
        assert arguments_of_default == {"backend": "gloo"}
    else:
        assert lost not in arguments_of_default
    assert lost in difference_of(config_of(cls, arguments), "cuda")[FIELDS[cls]]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("cls, arguments, field", [
    (handlers.TERecipeKwargs, {"fp8_format": "E3M4"}, "fp8_format"),
    (handlers.TERecipeKwargs, {"amax_compute_algo": "mean"}, "amax_compute_algo"),
    (handlers.MSAMPRecipeKwargs, {"opt_level": "O3"}, "opt_level"),
    (handlers.FP8RecipeKwargs, {"backend": "AO"}, "backend"),
    (handlers.DistributedDataParallelKwargs, {"comm_hook": "FP16"}, "comm_hook"),
], ids=name_of)
def test_refuses_what_accelerate_refuses(cls, arguments, field):
    with pytest.raises(ValueError):
        build(cls, arguments)
    result = accelctl("kwargs", "diff", "-", stdin=json.dumps(config_of(cls, arguments)))
    assert result.returncode != 0
    assert f"{FIELDS[cls]}.{field}" in result.stderr


# Defaults that stand for "not set" upstream, or that never hold on a node.
OTHER_DEFAULTS = {
    ("ddp_kwargs", "comm_state_option"),
    ("ddp_kwargs", "comm_hook_overflow_guard"),
    ("ao_recipe_kwargs", "config"),
    ("fp8_recipe_kwargs", "opt_level"),
    ("gradient_accumulation_plugin", "num_steps"),
    ("dataloader_config", "use_stateful_dataloader"),
    ("project_config", "automatic_checkpoint_naming"),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("cls", FIELDS, ids=name_of)
def test_defaults_are_accelerates(cls):
    result = accelctl("kwargs", "defaults", "-o", "json")
    assert result.returncode == 0, result.stderr
    found = numbers(json.loads(result.stdout)[FIELDS[cls]])
    expected = {
        name: as_json(value) for name, value in vars(cls()).items()
        if (FIELDS[cls], name) not in OTHER_DEFAULTS and value is not None
    }
    others = {name for field, name in OTHER_DEFAULTS if field == FIELDS[cls]}
    assert {name: value for name, value in found.items() if name not in others} == expected
