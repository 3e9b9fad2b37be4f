"""The loss scaler against torch.amp.GradScaler, step by step, with gradients that overflow."""

import engine
import pytest
import torch
from safetensors.torch import save_file

KWARGS = {"init_scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "enabled": True}

CASES = {
    "grows_and_backs_off": KWARGS,
    "other_factors": {**KWARGS, "init_scale": 3.7, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 3},
    "would_grow_to_infinity": {**KWARGS, "init_scale": 3e38, "growth_interval": 1},
    # Below the smallest normal number the reciprocal is infinite: every step that unscales first is skipped.
    "subnormal": {**KWARGS, "init_scale": 1e-40, "growth_interval": 1000},
    "sinks_to_subnormal": {**KWARGS, "init_scale": 2e-36, "backoff_factor": 1e-3, "growth_interval": 1000},
    "disabled": {**KWARGS, "enabled": False},
}
OPTIMIZERS = {
    "adamw": ({"adamw": {"lr": 0.1}}, lambda p: torch.optim.AdamW(p, lr=0.1, fused=True)),
    "adam": ({"adam": {"lr": 0.1}}, lambda p: torch.optim.Adam(p, lr=0.1, fused=True)),
    "sgd": ({"sgd": {"lr": 0.1}}, lambda p: torch.optim.SGD(p, lr=0.1, fused=True)),
}
STEPS = 12


def gradients(scale):
    """Rows for STEPS steps; with an enabled scaler some are not finite."""
    rows = torch.randn(STEPS, 33, generator=torch.Generator().manual_seed(2))
    if scale:
        rows[3, 5] = float("inf")
        rows[6, 0] = float("nan")
        rows[7, 32] = float("-inf")
    return rows


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_equals_torch(case, optimizer, tmp_path):
    kwargs = CASES[case]
    spec, build = OPTIMIZERS[optimizer]
    parameter = torch.randn(33, generator=torch.Generator().manual_seed(1))
    rows = gradients(kwargs["enabled"])
    # Every second pair of steps looks at the unscaled gradients first, as clipping does.
    unscale = torch.tensor([i % 4 > 1 for i in range(STEPS)], dtype=torch.int64)
    save_file({"parameter": parameter, "gradients": rows, "unscale": unscale}, tmp_path / "input.safetensors")
    job = {"optimizer": spec, "accelerator": {"scaler_kwargs": kwargs}}
    got = engine.dump(tmp_path, [job], "scaler", "--input", tmp_path / "input.safetensors")

    weights = parameter.clone().requires_grad_()
    peer = build([weights])
    scaler = torch.amp.GradScaler("cpu", **kwargs)
    for i, row in enumerate(rows):
        scaler.scale((weights * row).sum()).backward()
        if unscale[i]:
            scaler.unscale_(peer)
        scaler.step(peer)
        if kwargs["enabled"]:
            found = scaler._per_optimizer_states[id(peer)]["found_inf_per_device"].values()
            assert bool(got["stepped"][i]) == (sum(found).item() == 0), i
        scaler.update()
        peer.zero_grad()
        # Division by a subnormal scale gives infinities, and NaN from the next step on.
        torch.testing.assert_close(got["parameter"][i], weights.detach(), rtol=0, atol=0, equal_nan=True)
        if kwargs["enabled"]:
            assert got["scale"][i].item() == scaler.get_scale(), i
            assert got["growth_tracker"][i].item() == scaler._get_growth_tracker(), i
    if kwargs["enabled"]:
        assert got["stepped"].tolist().count(0) >= 3
    else:
        assert got["stepped"].all()
