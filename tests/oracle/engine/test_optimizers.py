"""Optimizers against torch.optim: every parameter after each of 20 steps, and the state at the end, bit for bit."""

import engine
import pytest
import torch
from safetensors.torch import save_file

STEPS = 20
# Names and shapes as a model with a norm layer has them.
SHAPES = {
    "embed.weight": (11, 6),
    "norm.bias": (6,),
    "norm.weight": (6,),
    "out.bias": (37,),
    "out.weight": (37, 6),
}
# The parameter that has no gradient in the first steps, and the first step with one.
LATE, LATE_FROM = "out.bias", 3

SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
ADAGRAD, RMSPROP = torch.optim.Adagrad, torch.optim.RMSprop

# name -> (OptimizerSpec, class, its options, names without weight decay)
CASES = {
    "sgd": ({"sgd": {}}, SGD, {"fused": True}, set()),
    "sgd_all": (
        {"sgd": {"lr": 0.03, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.02, "maximize": True}},
        SGD,
        dict(lr=0.03, momentum=0.9, dampening=0.1, weight_decay=0.02, maximize=True, fused=True),
        set(),
    ),
    "sgd_nesterov": (
        {"sgd": {"lr": 0.03, "momentum": 0.9, "nesterov": True}},
        SGD,
        dict(lr=0.03, momentum=0.9, nesterov=True, fused=True),
        set(),
    ),
    "adam": ({"adam": {}}, ADAM, {"fused": True}, set()),
    "adam_all": (
        {"adam": {"lr": 0.02, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True,
                  "maximize": True}},
        ADAM,
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, amsgrad=True, maximize=True, fused=True),
        set(),
    ),
    "adam_decoupled": (
        {"adam": {"weight_decay": 0.3, "decoupled_weight_decay": True}},
        ADAM,
        dict(weight_decay=0.3, decoupled_weight_decay=True, fused=True),
        set(),
    ),
    "adamw": ({"adamw": {}}, ADAMW, {"fused": True}, set()),
    "adamw_all": (
        {"adamw": {"lr": 0.02, "weight_decay": 0.3, "amsgrad": True, "maximize": True}},
        ADAMW,
        dict(lr=0.02, weight_decay=0.3, amsgrad=True, maximize=True, fused=True),
        set(),
    ),
    "adagrad": ({"adagrad": {}}, ADAGRAD, {"fused": True}, set()),
    "adagrad_all": (
        {"adagrad": {"lr": 0.3, "lr_decay": 0.07, "weight_decay": 0.05, "initial_accumulator_value": 0.2,
                     "eps": 1e-6, "maximize": True}},
        ADAGRAD,
        dict(lr=0.3, lr_decay=0.07, weight_decay=0.05, initial_accumulator_value=0.2, eps=1e-6, maximize=True,
             fused=True),
        set(),
    ),
    "rmsprop": ({"rmsprop": {}}, RMSPROP, {}, set()),
    "rmsprop_centered": (
        {"rmsprop": {"lr": 0.02, "alpha": 0.9, "centered": True, "eps": 1e-5}},
        RMSPROP,
        dict(lr=0.02, alpha=0.9, centered=True, eps=1e-5),
        set(),
    ),
    "rmsprop_momentum": (
        {"rmsprop": {"momentum": 0.8, "weight_decay": 0.1}},
        RMSPROP,
        dict(momentum=0.8, weight_decay=0.1),
        set(),
    ),
    "rmsprop_all": (
        {"rmsprop": {"lr": 0.02, "alpha": 0.9, "centered": True, "momentum": 0.8, "weight_decay": 0.1,
                     "maximize": True}},
        RMSPROP,
        dict(lr=0.02, alpha=0.9, centered=True, momentum=0.8, weight_decay=0.1, maximize=True),
        set(),
    ),
    "adamw_no_decay_biases": (
        {"adamw": {"weight_decay": 0.5}, "no_decay": {"biases": True}},
        ADAMW,
        dict(weight_decay=0.5, fused=True),
        {"norm.bias", "out.bias"},
    ),
    "sgd_no_decay_norms": (
        {"sgd": {"momentum": 0.9, "weight_decay": 0.5}, "no_decay": {"norms": True}},
        SGD,
        dict(momentum=0.9, weight_decay=0.5, fused=True),
        {"norm.bias", "norm.weight"},
    ),
    "rmsprop_no_decay_names": (
        {"rmsprop": {"weight_decay": 0.5}, "no_decay": {"name_contains": ["embed", "t.bi"]}},
        RMSPROP,
        dict(weight_decay=0.5),
        {"embed.weight", "out.bias"},
    ),
    "adagrad_no_decay_all_rules": (
        {
            "adagrad": {"weight_decay": 0.5},
            "no_decay": {"biases": True, "norms": True, "name_contains": ["embed"]},
        },
        ADAGRAD,
        dict(weight_decay=0.5, fused=True),
        {"norm.bias", "norm.weight", "out.bias", "embed.weight"},
    ),
}


@pytest.fixture(scope="module")
def inputs():
    generator = torch.Generator().manual_seed(8)
    tensors = {f"parameter.{name}": torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    for step in range(STEPS):
        for name, shape in SHAPES.items():
            if name != LATE or step >= LATE_FROM:
                tensors[f"gradient.{step}.{name}"] = torch.randn(shape, generator=generator)
    return tensors


@pytest.fixture(scope="module", params=[None, 7], ids=["whole", "resumed"])
def ours(request, inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimizers")
    save_file(inputs, folder / "input.safetensors")
    jobs = [{"optimizer": case[0]} for case in CASES.values()]
    options = ["--input", folder / "input.safetensors", "--updates", STEPS]
    if request.param is not None:
        options += ["--resume-at", request.param]
    return engine.dump(folder, jobs, "optimizers", *options)


def build(kind, options, no_decay, parameters):
    """torch's optimizer of two groups."""
    groups = [{"params": [p for name, p in parameters.items() if name not in no_decay]}]
    if no_decay:
        group = [p for name, p in parameters.items() if name in no_decay]
        groups.append({"params": group, "weight_decay": 0.0})
    return kind(groups, **options)


def run_torch(kind, options, no_decay, inputs):
    """([parameters after each step], the optimizer's state by `<parameter>.<slot>`)."""
    parameters = {name: inputs[f"parameter.{name}"].clone().requires_grad_() for name in SHAPES}
    parts = [parameters]
    if kind is SGD:
        # Its fused kernel takes no parameter whose momentum begins later than that of the others.
        parts = [{name: p for name, p in parameters.items() if (name == LATE) == late} for late in (False, True)]
    optimizers = [build(kind, options, no_decay & part.keys(), part) for part in parts]
    history = []
    for step in range(STEPS):
        for name, parameter in parameters.items():
            gradient = inputs.get(f"gradient.{step}.{name}")
            parameter.grad = None if gradient is None else gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
        history.append({name: p.detach().clone() for name, p in parameters.items()})
    state = {}
    for part, optimizer in zip(parts, optimizers):
        for name, parameter in part.items():
            for slot, value in optimizer.state[parameter].items():
                if value is not None:
                    state[f"{name}.{slot}"] = value
    return history, state


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name, inputs, ours):
    _, kind, options, no_decay = CASES[name]
    job = list(CASES).index(name)
    history, state = run_torch(kind, options, no_decay, inputs)
    for step, parameters in enumerate(history):
        for parameter, value in parameters.items():
            assert torch.equal(ours[f"{job}.{step}.{parameter}"], value), (step, parameter)
    prefix = f"{job}.state."
    saved = {key.removeprefix(prefix): value for key, value in ours.items() if key.startswith(prefix)}
    assert saved.keys() == state.keys()
    for key, value in state.items():
        assert torch.equal(saved[key], value), key


def test_cases_differ(ours):
    """Each option has an effect: no two cases end alike."""
    ends = {tuple(torch.cat([ours[f"{job}.{STEPS - 1}.{name}"].flatten() for name in SHAPES]).tolist())
            for job in range(len(CASES))}
    assert len(ends) == len(CASES)


def test_a_text_in_no_name_is_refused(inputs, tmp_path, capfd):
    save_file(inputs, tmp_path / "input.safetensors")
    job = {"optimizer": {"adamw": {}, "no_decay": {"name_contains": ["embed", "Embed"]}}}
    with pytest.raises(engine.subprocess.CalledProcessError):
        engine.dump(tmp_path, [job], "optimizers", "--input", tmp_path / "input.safetensors", "--updates", 1)
    assert '"Embed" is in the name of no parameter' in capfd.readouterr().err
