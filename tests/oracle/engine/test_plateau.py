"""ReduceLROnPlateau: the rate after each value of a metric is torch's, also where its state is taken up anew."""

import engine
import pytest
import torch
from safetensors.torch import save_file

BASE_RATE = 0.0123

CASES = {
    "defaults": {},
    "impatient": {"patience": 0, "factor": 0.7},
    "maximum": {"mode": "max", "patience": 2},
    "absolute": {"threshold_mode": "abs", "threshold": 0.05, "patience": 1},
    "absolute_maximum": {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 1},
    "cooldown": {"patience": 1, "cooldown": 3, "factor": 0.5},
    "lowest": {"patience": 0, "min_lr": 0.001, "factor": 0.3},
    "no_small_changes": {"patience": 0, "eps": 0.001, "factor": 0.8},
}


def test_every_rate_is_torchs(tmp_path):
    generator = torch.Generator().manual_seed(6)
    values = 1 / torch.arange(1, 61, dtype=torch.float64) + 0.1 * torch.rand(60, generator=generator).double()
    values[[7, 30]] = torch.tensor([float("nan"), float("inf")], dtype=torch.float64)
    save_file({"values": values}, tmp_path / "input.safetensors")
    jobs = [{"schedule": {"reduce_on_plateau": {"metric": "train/loss", **options}}} for options in CASES.values()]
    options = ["--input", tmp_path / "input.safetensors", "--base-rate", BASE_RATE]
    ours = engine.dump(tmp_path, jobs, "plateaus", *options)

    all_rates = set()
    for i, (name, options) in enumerate(CASES.items()):
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE_RATE)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for value in values.tolist():
            schedule.step(value)
            rates.append(optimizer.param_groups[0]["lr"])
        assert ours[str(i)].tolist() == rates, name
        assert rates[-1] < BASE_RATE
        all_rates.add(tuple(rates))
    assert len(all_rates) == len(CASES)


@pytest.mark.parametrize("metric, mode", [("eval/accuracy", "max"), ("eval/loss", "min"), ("train/loss", "min")])
def test_mode_follows_the_metric(metric, mode, tmp_path):
    save_file({"values": torch.arange(5, dtype=torch.float64)}, tmp_path / "input.safetensors")
    schedules = [{"metric": metric, "patience": 0}, {"metric": metric, "mode": mode, "patience": 0}]
    jobs = [{"schedule": {"reduce_on_plateau": schedule}} for schedule in schedules]
    options = ["--input", tmp_path / "input.safetensors", "--base-rate", 1]
    ours = engine.dump(tmp_path, jobs, "plateaus", *options)
    assert torch.equal(ours["0"], ours["1"])
    assert (ours["0"][-1].item() == 1) == (mode == "max")
