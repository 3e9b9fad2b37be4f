"""Learning rates against torch.optim.lr_scheduler and the formulas of Transformers' get_*_schedule functions."""

import math

import engine
import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, MultiStepLR, OneCycleLR, StepLR

UPDATES = 60
BASE_RATE = 0.0123


def warmed_up(warmup, factor):
    return lambda step: step / max(1, warmup) if step < warmup else factor(step)


def linear(warmup, total):
    return warmed_up(warmup, lambda step: max(0.0, (total - step) / max(1, total - warmup)))


def cosine(warmup, total, num_cycles=0.5):
    def factor(step):
        progress = (step - warmup) / max(1, total - warmup)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * num_cycles * 2.0 * progress)))

    return warmed_up(warmup, factor)


def cosine_with_restarts(warmup, total, num_cycles=1):
    def factor(step):
        progress = (step - warmup) / max(1, total - warmup)
        if progress >= 1.0:
            return 0.0
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((num_cycles * progress) % 1.0))))

    return warmed_up(warmup, factor)


def polynomial(warmup, total, lr_end=1e-7, power=1.0):
    def factor(step):
        if step > total:
            return lr_end / BASE_RATE
        remaining = 1 - (step - warmup) / (total - warmup)
        return ((BASE_RATE - lr_end) * remaining**power + lr_end) / BASE_RATE

    return warmed_up(warmup, factor)


def inverse_sqrt(warmup, timescale=None):
    timescale = timescale or warmup or 10000
    return warmed_up(warmup, lambda step: 1.0 / math.sqrt((step + timescale - warmup) / timescale))


def by_factor(make):
    """`make` gets the steps of the job and returns the factor of a step."""
    return lambda optimizer, total: LambdaLR(optimizer, make(total))


def one_cycle(max_lr=BASE_RATE, **options):
    def make(optimizer, total):
        return OneCycleLR(optimizer, **{"max_lr": max_lr, "total_steps": total, **options})

    return make


# ScheduleSpec -> what it is in Python, of the optimizer and the schedule's steps in the job.
CASES = {
    "none": ({}, by_factor(lambda total: lambda step: 1.0)),
    "constant": ({"constant": {}}, by_factor(lambda total: lambda step: 1.0)),
    "constant_warmup": (
        {"constant": {"warmup_steps": 7}},
        by_factor(lambda total: warmed_up(7, lambda step: 1.0)),
    ),
    "linear": ({"linear": {}}, by_factor(lambda total: linear(0, total))),
    "linear_short": ({"linear": {"warmup_steps": 3, "total_steps": 41}}, by_factor(lambda total: linear(3, 41))),
    "cosine": ({"cosine": {"warmup_steps": 5}}, by_factor(lambda total: cosine(5, total))),
    "cosine_waves": (
        {"cosine": {"warmup_steps": 5, "num_cycles": 1.7}},
        by_factor(lambda total: cosine(5, total, 1.7)),
    ),
    "restarts_default": (
        {"cosine_with_restarts": {}},
        by_factor(lambda total: cosine_with_restarts(0, total)),
    ),
    "restarts": (
        {"cosine_with_restarts": {"warmup_steps": 4, "total_steps": 47, "num_cycles": 3}},
        by_factor(lambda total: cosine_with_restarts(4, 47, 3)),
    ),
    "polynomial_default": ({"polynomial": {}}, by_factor(lambda total: polynomial(0, total))),
    "polynomial": (
        {"polynomial": {"warmup_steps": 6, "total_steps": 43, "lr_end": 0.001, "power": 2.5}},
        by_factor(lambda total: polynomial(6, 43, 0.001, 2.5)),
    ),
    "inverse_sqrt": ({"inverse_sqrt": {"warmup_steps": 9}}, by_factor(lambda total: inverse_sqrt(9))),
    "inverse_sqrt_default": ({"inverse_sqrt": {}}, by_factor(lambda total: inverse_sqrt(0))),
    "inverse_sqrt_timescale": (
        {"inverse_sqrt": {"warmup_steps": 9, "timescale": 31}},
        by_factor(lambda total: inverse_sqrt(9, 31)),
    ),
    "step": ({"step": {"step_size": 7}}, lambda optimizer, total: StepLR(optimizer, 7)),
    "step_gamma": (
        {"step": {"step_size": 3, "gamma": 0.93}},
        lambda optimizer, total: StepLR(optimizer, 3, 0.93),
    ),
    "multi_step": (
        {"multi_step": {"milestones": [1, 8, 9, 40, 1000], "gamma": 0.7}},
        lambda optimizer, total: MultiStepLR(optimizer, [1, 8, 9, 40, 1000], 0.7),
    ),
    "multi_step_default": (
        {"multi_step": {"milestones": [20]}},
        lambda optimizer, total: MultiStepLR(optimizer, [20]),
    ),
    "exponential": (
        {"exponential": {"gamma": 0.97}},
        lambda optimizer, total: ExponentialLR(optimizer, 0.97),
    ),
    "one_cycle": ({"one_cycle": {}}, one_cycle()),
    "one_cycle_linear": (
        {"one_cycle": {"max_lr": 0.5, "pct_start": 0.41, "anneal_strategy": "linear", "div_factor": 7}},
        one_cycle(0.5, pct_start=0.41, anneal_strategy="linear", div_factor=7.0),
    ),
    "one_cycle_three_phases": (
        {"one_cycle": {"three_phase": True, "pct_start": 0.37, "final_div_factor": 11}},
        one_cycle(three_phase=True, pct_start=0.37, final_div_factor=11.0),
    ),
    "one_cycle_short": (
        {"one_cycle": {"total_steps": 37, "cycle_momentum": False}},
        one_cycle(total_steps=37, cycle_momentum=False),
    ),
    "one_cycle_momentum": (
        {"one_cycle": {"max_lr": 0.2, "pct_start": 0.45, "base_momentum": 0.7, "max_momentum": 0.99}},
        one_cycle(0.2, pct_start=0.45, base_momentum=0.7, max_momentum=0.99),
    ),
}


def torch_rates(make, per_update, kind=torch.optim.SGD):
    """(rates, momenta) of steps as Accelerate's AcceleratedScheduler makes them."""
    optimizer = kind([torch.zeros(1, requires_grad=True)], lr=BASE_RATE)
    schedule = make(optimizer, UPDATES * per_update)
    rates, momenta = [], []
    for _ in range(UPDATES):
        rates.append(schedule.get_last_lr()[0])
        group = optimizer.param_groups[0]
        momenta.append(group["betas"][0] if "betas" in group else group["momentum"])
        optimizer.step()
        for _ in range(per_update):
            if not hasattr(schedule, "total_steps") or schedule._step_count <= schedule.total_steps:
                schedule.step()
    return rates, momenta


@pytest.fixture(scope="module", params=[1, 2, 3])
def ours(request, tmp_path_factory):
    """(steps of the schedule for an optimizer step, name -> rates)."""
    jobs = [{"schedule": schedule} for schedule, _ in CASES.values()]
    options = ["--base-rate", BASE_RATE, "--updates", UPDATES, "--steps-per-update", request.param]
    found = engine.dump(tmp_path_factory.mktemp("schedules"), jobs, "schedules", *options)
    rates = {name: found[str(i)].tolist() for i, name in enumerate(CASES)}
    momenta = {name: found[f"{i}.momentum"].tolist() for i, name in enumerate(CASES) if f"{i}.momentum" in found}
    return request.param, rates, momenta


@pytest.mark.parametrize("name", CASES)
def test_every_rate_is_the_same_number(name, ours):
    per_update, rates, momenta = ours
    for kind in (torch.optim.SGD, torch.optim.Adam):
        expected_rates, expected_momenta = torch_rates(CASES[name][1], per_update, kind)
        assert rates[name] == expected_rates
        if name in momenta:
            assert momenta[name] == expected_momenta
        else:
            assert len(set(expected_momenta)) == 1


def test_schedules_differ(ours):
    """No two cases are the same by chance, but for those without a schedule."""
    assert len({tuple(rates) for rates in ours[1].values()}) == len(CASES) - 1
