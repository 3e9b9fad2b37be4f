"""L-BFGS against torch.optim.LBFGS: every evaluated loss, every parameter after each step, and the state, bit for bit."""

import engine
import pytest
import torch
from safetensors.torch import save_file

STEPS = 7

# Lbfgs -> options of torch's class, the same.
CASES = {
    "defaults": {},
    "strong_wolfe": {"line_search_fn": "strong_wolfe"},
    "short_history": {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 6},
    "few_evaluations": {"line_search_fn": "strong_wolfe", "max_iter": 9, "max_eval": 5},
    "one_evaluation": {"lr": 0.7, "line_search_fn": "strong_wolfe", "max_eval": 1},
    "small_steps": {"lr": 0.05, "max_iter": 4, "tolerance_change": 1e-4},
    "tolerant": {"tolerance_grad": 0.05, "tolerance_change": 1e-3, "line_search_fn": "strong_wolfe"},
    "long_first_length": {"lr": 30, "max_iter": 5, "line_search_fn": "strong_wolfe"},
    "maximize": {"lr": 0.01, "max_iter": 3, "maximize": True},
    "one_iteration": {"max_iter": 1},
}


@pytest.fixture(scope="module")
def inputs():
    generator = torch.Generator().manual_seed(4)
    return {
        "x": torch.randn(40, 7, generator=generator),
        "y": torch.randn(40, 2, generator=generator),
        "parameter.a": torch.randn(7, 5, generator=generator),
        "parameter.b": torch.randn(5, 2, generator=generator),
    }


@pytest.fixture(scope="module", params=[None, 3], ids=["whole", "resumed"])
def ours(request, inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lbfgs")
    save_file(inputs, folder / "input.safetensors")
    jobs = [{"optimizer": {"lbfgs": options}} for options in CASES.values()]
    arguments = ["--input", folder / "input.safetensors", "--updates", STEPS]
    if request.param is not None:
        arguments += ["--resume-at", request.param]
    return engine.dump(folder, jobs, "closures", *arguments)


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name, ours, inputs):
    job = list(CASES).index(name)
    a, b = (inputs[f"parameter.{key}"].clone().requires_grad_() for key in "ab")
    optimizer = torch.optim.LBFGS([a, b], **CASES[name])
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = (((inputs["x"] @ a).tanh() @ b) - inputs["y"]).square().mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for step in range(STEPS):
        optimizer.step(closure)
        for key, parameter in (("a", a), ("b", b)):
            assert torch.equal(ours[f"{job}.{step}.{key}"], parameter.detach()), (step, key)
    assert ours[f"{job}.losses"].tolist() == losses

    prefix = f"{job}.state.all."
    found = {key.removeprefix(prefix): value for key, value in ours.items() if key.startswith(prefix)}
    state = optimizer.state[a]
    for key in ("func_evals", "n_iter", "t", "H_diag"):
        assert found[key].item() == float(state[key]), key
    for key in ("d", "prev_flat_grad"):
        assert torch.equal(found[key], state[key]), key
    for key in ("old_dirs", "old_stps", "ro"):
        assert len(found.get(key, [])) == len(state[key]), key
        for mine, theirs in zip(found.get(key, []), state[key]):
            assert torch.equal(mine, theirs), key


def test_the_jobs_differ(ours):
    last = [ours[f"{i}.{STEPS - 1}.a"] for i in range(len(CASES))]
    for i, first in enumerate(last):
        assert not any(torch.equal(first, second) for second in last[i + 1 :]), i
