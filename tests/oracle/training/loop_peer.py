"""Jobs whose loop is the script's own, as Accelerate's guides write it: averaging over items, local SGD, early stops.

Arguments, input and results as accelerate_peer.py.
"""

import contextlib
import itertools
import sys

import accelerate_peer as peer
import torch
from accelerate.local_sgd import LocalSGD


def steps_of(loader, num_steps):
    """The batches of each optimizer step of an epoch."""
    batches = iter(loader)
    while group := list(itertools.islice(batches, num_steps)):
        yield group


@contextlib.contextmanager
def averaged(run):
    """The model with the mean over ranks of each parameter."""
    own = [parameter.data for parameter in run.model.parameters()]
    for parameter in run.model.parameters():
        parameter.data = run.accelerator.reduce(parameter.data, "mean")
    yield
    for parameter, value in zip(run.model.parameters(), own):
        parameter.data = value


class Conditions:
    """LoopSpec.early_stopping, with Accelerate's trigger set on the last rank alone."""

    def __init__(self, run):
        self.conditions = [{"waited": 0, **c} for c in run.spec["loop"].get("early_stopping", [])]
        self.accelerator = run.accelerator
        self.holds = False

    def observe(self, metric, value):
        for condition in self.conditions:
            if condition["metric"] != metric:
                continue
            sign = -1 if condition.get("mode", "max" if metric == "eval/accuracy" else "min") == "max" else 1
            best = condition.get("best")
            if best is None or sign * value < sign * best - condition.get("min_delta", 0):
                condition["best"], condition["waited"] = value, 0
            else:
                condition["waited"] += 1
            reached = "threshold" in condition and sign * value <= sign * condition["threshold"]
            if reached or condition["waited"] >= condition.get("patience", float("inf")):
                last = self.accelerator.process_index == self.accelerator.num_processes - 1
                if last:
                    self.accelerator.set_trigger()
        self.holds = self.holds or self.accelerator.check_trigger()


def train_step(run, group, local):
    """One optimizer step as the guide to gradient accumulation takes it; the losses of its micro-batches."""
    spec, accelerator, model = run.spec, run.accelerator, run.model
    averaging = spec["loss"].get("averaging", "num_steps")
    criterion = peer.loss_function(spec, "sum" if averaging == "items" else "mean")
    count = sum((target != peer.ignore_index(spec)).sum() for _, target in group)
    if "mse" in spec["loss"]:
        count = torch.tensor(sum(target.numel() for _, target in group))
    items = accelerator.gather(count.reshape(1)).sum().item()
    samples = sum(len(target) for _, target in group)
    all_samples = accelerator.gather(torch.tensor([samples])).sum().item()
    losses = []
    for i, (features, target) in enumerate(group):
        last = i == len(group) - 1
        ranks = accelerator.num_processes
        with contextlib.nullcontext() if last or ranks == 1 or local or run.each else model.no_sync():
            loss = criterion(model(features), target)
            losses.append(loss.item())
            if averaging == "items":
                loss = (loss * run.num_steps * ranks) / items
            if averaging == "micro_batches":
                (loss / len(group)).backward()
            else:
                accelerator.backward(loss)
    if averaging == "items":
        return sum(losses) * (all_samples / (samples * items))
    return sum(losses) / len(losses)


def train(job, out):
    run = peer.prepare(job)
    accelerator, loop, model = run.accelerator, run.spec["loop"], run.model
    local_steps = loop.get("local_sgd_steps", 0)
    conditions = Conditions(run)
    result = {"losses": [], "rates": [], "norms": [], "evaluations": [], "scales": [], "skipped": []}
    local_sgd = contextlib.ExitStack()
    local = None
    if local_steps:
        local = local_sgd.enter_context(LocalSGD(accelerator, model, local_steps, enabled=True))
    model.train()
    for epoch in range(loop["num_epochs"]):
        for group in steps_of(run.loader, run.num_steps):
            result["losses"].append(train_step(run, group, bool(local_steps)))
            peer.clip_gradients(run, result)
            result["rates"].append(run.schedule.get_last_lr()[0])
            peer.optimizer_step(run, result)
            for _ in group if run.adjust else [None]:
                run.schedule.step()
            run.optimizer.zero_grad()
            if local is not None:
                local.step()
            mean = accelerator.reduce(torch.tensor(result["losses"][-1], dtype=torch.double), "mean").item()
            conditions.observe("train/loss", mean)
            if conditions.holds:
                break
        last = conditions.holds or epoch == loop["num_epochs"] - 1
        if last:
            local_sgd.close()
        if run.evaluation is not None:
            apart = bool(local_steps) and not last and len(result["losses"]) % local_steps != 0
            with averaged(run) if apart else contextlib.nullcontext():
                metrics = peer.evaluate(model, run.evaluation, run.spec, accelerator)
            result["evaluations"].append(metrics)
            if not conditions.holds:
                for metric in ("eval/loss", "eval/accuracy"):
                    conditions.observe(metric, metrics.get(metric, 0.0))
        if conditions.holds:
            break
    local_sgd.close()
    peer.save(run, result, out)
    return accelerator


if __name__ == "__main__":
    peer.main(*sys.argv[1:], train=train)
