"""The same jobs as an Accelerate script: `accelerate_peer.py JOBS.json OUT`, under torchrun or alone.

JOBS.json holds {name: {"spec": JobSpec, "accelerator": AcceleratorConfig, "data": folder of the root `data`}}.
Writes OUT/<name>/result_<rank>.json (losses, learning rates, norms, evaluations, compression statistics, steps per
second, the time of the first step, the highest resident memory) and, on rank 0, OUT/<name>/model.safetensors.
"""

import functools
import itertools
import json
import logging
import math
import pathlib
import resource
import sys
import time
import types

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DDPCommunicationHookType,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
)
from safetensors.torch import load_file, save_file
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import reference_models  # noqa: E402
from streams import Stream  # noqa: E402


def build_model(spec, data):
    ((kind, fields),) = spec["model"].items()
    if kind == "gpt":
        fields = {"context_length": data.tensors[0].shape[1], **fields}
    return reference_models.build({kind: fields})


def load_dataset(dataset, folder):
    path = folder / dataset["file"].removeprefix("data/")
    if "bytes" in dataset:
        length = dataset["bytes"]["sequence_length"]
        tokens = torch.tensor(list(path.read_bytes()))
        starts = range(0, len(tokens) - length, dataset["bytes"].get("stride", length))
        features = torch.stack([tokens[s : s + length] for s in starts])
        targets = torch.stack([tokens[s + 1 : s + length + 1] for s in starts])
        return TensorDataset(features, targets)
    if "csv" in dataset:
        table = torch.from_numpy(np.loadtxt(path, delimiter=",", ndmin=2))
        return TensorDataset(table[:, :-1].float(), table[:, -1].long())
    tensors = load_file(path)
    features = tensors["features"]
    if "feature_shape" in dataset:
        features = features.reshape(-1, *dataset["feature_shape"])
    return TensorDataset(features, tensors["targets"])


def ignore_index(spec):
    return next(iter(spec["loss"].values())).get("ignore_index", -100)


def loss_function(spec, reduction="mean"):
    loss = spec["loss"]
    if "mse" in loss:
        return lambda output, target: F.mse_loss(output, target.view_as(output), reduction=reduction)
    options = {"ignore_index": ignore_index(spec), "reduction": reduction}
    if "next_token" in loss:
        return lambda output, target: F.cross_entropy(output.view(-1, output.shape[-1]), target.reshape(-1), **options)
    options["label_smoothing"] = loss["cross_entropy"].get("label_smoothing", 0.0)
    return lambda output, target: F.cross_entropy(output, target, **options)


NORM_LAYERS = (nn.LayerNorm, nn.BatchNorm2d)


def parameter_groups(model, no_decay):
    """One group, or a second one of the parameters without weight decay."""
    if not no_decay:
        return model.parameters()
    excluded = set()
    for layer_name, layer in model.named_modules():
        for name, _ in layer.named_parameters(recurse=False):
            full_name = f"{layer_name}.{name}"
            if (
                (no_decay.get("biases") and name == "bias")
                or (no_decay.get("norms") and isinstance(layer, NORM_LAYERS))
                or any(text in full_name for text in no_decay.get("name_contains", []))
            ):
                excluded.add(full_name)
    named = list(model.named_parameters())
    return [
        {"params": [parameter for name, parameter in named if name not in excluded]},
        {"params": [parameter for name, parameter in named if name in excluded], "weight_decay": 0.0},
    ]


def build_optimizer(spec, model):
    choice = dict(spec["optimizer"])
    parameters = parameter_groups(model, choice.pop("no_decay", None))
    name, options = next(iter(choice.items()))
    options = dict(options)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, **options)
    if name == "lbfgs":
        return torch.optim.LBFGS(parameters, **options)
    if name in ("adam", "adamw"):
        options["betas"] = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    optim = torch.optim
    kinds = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW, "adagrad": optim.Adagrad}
    return kinds[name](parameters, fused=True, **options)


def torch_schedule(name, options, optimizer, total):
    """A schedule that torch has a class for, or None."""
    scheduler = torch.optim.lr_scheduler
    if name == "one_cycle":
        options = {"max_lr": optimizer.defaults["lr"], "total_steps": total, **options}
        return scheduler.OneCycleLR(optimizer, **options)
    if name == "reduce_on_plateau":
        options = dict(options)
        mode = "max" if options.pop("metric", "eval/loss") == "eval/accuracy" else "min"
        options = {"mode": mode, **options}
        return scheduler.ReduceLROnPlateau(optimizer, **options)
    kinds = {"step": scheduler.StepLR, "multi_step": scheduler.MultiStepLR, "exponential": scheduler.ExponentialLR}
    return kinds[name](optimizer, **options) if name in kinds else None


def build_schedule(spec, optimizer, job_steps):
    name, options = next(iter(spec.get("schedule", {"constant": {}}).items()))
    warmup, total = options.get("warmup_steps", 0), options.get("total_steps", job_steps)
    if schedule := torch_schedule(name, options, optimizer, total):
        return schedule
    lr = optimizer.defaults["lr"]

    def factor(step):
        if step < warmup:
            return step / warmup
        if name == "constant":
            return 1.0
        if name == "inverse_sqrt":
            timescale = options.get("timescale", warmup or 10000)
            return 1.0 / math.sqrt((step + timescale - warmup) / timescale)
        if name == "linear":
            return max(0.0, (total - step) / (total - warmup))
        progress = (step - warmup) / (total - warmup)
        if name == "polynomial":
            lr_end, power = options.get("lr_end", 1e-7), options.get("power", 1.0)
            return ((lr - lr_end) * (1 - min(1.0, progress)) ** power + lr_end) / lr
        if name == "cosine_with_restarts":
            if progress >= 1.0:
                return 0.0
            return max(0.0, 0.5 * (1.0 + math.cos(math.pi * ((options.get("num_cycles", 1) * progress) % 1.0))))
        waves = options.get("num_cycles", 0.5)
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * waves * 2.0 * min(1.0, progress))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def evaluate(model, loader, spec, accelerator):
    model.eval()
    criterion = loss_function(spec)
    outputs, targets = [], []
    with torch.no_grad():
        for features, target in loader:
            # Without even_batches a rank's last batch may be shorter; what pads it lies behind all samples.
            padded = accelerator.pad_across_processes((model(features), target))
            output, target = accelerator.gather_for_metrics(padded)
            outputs.append(output)
            targets.append(target)
    model.train()
    output, target = torch.cat(outputs), torch.cat(targets)
    metrics = {"eval/loss": criterion(output, target).item(), "eval/samples": len(target)}
    if "cross_entropy" in spec["loss"]:
        counted = target != ignore_index(spec)
        metrics["eval/accuracy"] = (output.argmax(1) == target)[counted].double().mean().item()
    return metrics


def clip_gradients(run, result):
    """Clips as the job asks; notes the norm before where the job has it."""
    accelerator, model, loop = run.accelerator, run.model, run.spec["loop"]
    clipping = loop.get("clipping", {})
    if "max_norm" in clipping:
        result["norms"].append(accelerator.clip_grad_norm_(model.parameters(), clipping["max_norm"]).item())
        return
    clip_value = accelerator.clip_grad_value_
    if loop.get("log_grad_norm"):
        # At most once a step, so that Accelerate's function is not to do it again.
        accelerator.unscale_gradients()
        clip_value = nn.utils.clip_grad_value_
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        result["norms"].append(nn.utils.get_total_norm(gradients).item())
    if "max_value" in clipping:
        clip_value(model.parameters(), clipping["max_value"])


def ddp_handler(options):
    hooks = ("comm_hook", "comm_wrapper")
    options = dict(options)
    guarded = options.pop("comm_hook_overflow_guard", False)
    for name, (hook, dtype) in COMPRESS_HOOKS.items():
        setattr(default_hooks, name, guarded_compress_hook(dtype) if guarded else hook)
    return DistributedDataParallelKwargs(
        **{key: DDPCommunicationHookType[value.upper()] if key in hooks else value for key, value in options.items()}
    )


class CompressionStatistics(logging.Handler):
    """Collects what PowerSGD logs: (iteration, elements before, elements after, rate)."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def emit(self, record):
        if record.msg.startswith("Compression stats"):
            self.rows.append(record.args)


class LossScaler(torch.amp.GradScaler):
    """Remembers whether the last step overflowed. Accelerate looks whether the optimizer's step was called, and a fused
    optimizer's always is."""

    overflowed = False
    skipped_steps = 0

    def step(self, optimizer, *args, **kwargs):
        result = super().step(optimizer, *args, **kwargs)
        if self.is_enabled():
            found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
            self.overflowed = any(value.item() for value in found)
            self.skipped_steps += self.overflowed
        return result


def emulate_fp16(accelerator, options):
    """Autocast and a scaler as Accelerate sets them up for a GPU; on a CPU it does nothing for "fp16"."""
    accelerator.native_amp = True
    accelerator.scaler = LossScaler("cpu", **options)


COMPRESS_HOOKS = {
    "fp16_compress_hook": (default_hooks.fp16_compress_hook, torch.float16),
    "bf16_compress_hook": (default_hooks.bf16_compress_hook, torch.bfloat16),
}


def guarded_compress_hook(dtype):
    """torch's hook of 16 bits, dividing before the cast."""

    def hook(group, bucket):
        buffer = bucket.buffer()
        compressed = buffer.div_(torch.distributed.get_world_size()).to(dtype)
        future = torch.distributed.all_reduce(compressed, async_op=True).get_future()
        return future.then(lambda done: buffer.copy_(done.value()[0]))

    return hook


def lbfgs_step(accelerator, model, optimizer, criterion, features, target):
    """One step; returns this rank's first loss. The line search of every rank sees the ranks' mean."""
    first = []

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(features), target)
        accelerator.backward(loss)
        first.append(loss.item())
        return accelerator.reduce(loss.detach(), reduction="mean")

    optimizer.step(closure)
    return first[0]


def correct_power_sgd():
    """The batched hook hands matrices to a routine that takes batches of them, and over Gloo the callbacks of two
    buckets may start their collectives in another order on another rank: one bucket at a time has no such race."""
    orthogonalize = powerSGD_hook._orthogonalize
    powerSGD_hook._orthogonalize = lambda matrices, epsilon=0: orthogonalize(
        matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon
    )
    for name in ("powerSGD_hook", "batched_powerSGD_hook"):

        def finish_first(state, bucket, hook):
            future = hook(state, bucket)
            future.wait()
            return future

        hook = getattr(powerSGD_hook, name)
        setattr(powerSGD_hook, name, functools.wraps(hook)(functools.partial(finish_first, hook=hook)))


def train_loader(dataset, data, seed):
    options = {"batch_size": data["batch_size"], "drop_last": data.get("drop_last", False)}
    if "streaming" in data:
        return DataLoader(Stream(dataset, data["streaming"].get("shuffle_buffer", 0), seed), **options)
    order = RandomSampler(dataset, generator=torch.Generator().manual_seed(seed))
    return DataLoader(dataset, sampler=order if data.get("shuffle", True) else None, **options)


def ended(loop, result):
    """Whether the job's last step is done."""
    return len(result["losses"]) >= loop.get("max_steps", math.inf)


def prepare(job):
    """What a script has after accelerator.prepare."""
    spec, config, folder = job["spec"], job.get("accelerator", {}), pathlib.Path(job["data"])
    loop, data = spec["loop"], spec["data"]
    torch.set_num_threads(loop.get("num_cpu_threads_per_process", 1))
    seed = loop.get("seed", 42)
    loading = config.get("dataloader_config", {})
    data_seed = loading.get("data_seed", seed)
    accumulation = {"num_steps": 1, **config.get("gradient_accumulation_plugin", {})}
    count, with_optimizer = accumulation["num_steps"], config.get("step_scheduler_with_optimizer", True)
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(**{**loading, "data_seed": data_seed}),
        mixed_precision=config.get("mixed_precision", "no"),
        kwargs_handlers=[
            ddp_handler(config.get("ddp_kwargs", {})),
            AutocastKwargs(**config.get("autocast_kwargs", {})),
        ],
        step_scheduler_with_optimizer=with_optimizer,
        gradient_accumulation_plugin=GradientAccumulationPlugin(**accumulation),
    )
    if config.get("emulate_fp16", False):
        emulate_fp16(accelerator, config.get("scaler_kwargs", {}))
    torch.manual_seed(seed)
    train_data = load_dataset(data["train"], folder)
    model = build_model(spec, train_data)
    loader = train_loader(train_data, data, data_seed)
    optimizer = build_optimizer(spec, model)
    optimizer, prepared_loader = accelerator.prepare(optimizer, loader)
    # Accelerate does nothing with adjust_scheduler; what it is documented to do is done below.
    adjust = count > 1 and accumulation.get("adjust_scheduler", True) and with_optimizer
    batches = None if "streaming" in data else len(prepared_loader)
    if batches is None:
        job_steps = loop.get("max_steps", 0) * (count if adjust or not with_optimizer else 1)
    elif adjust or not with_optimizer:
        job_steps = batches * loop["num_epochs"]
    elif accumulation.get("sync_with_dataloader", True):
        job_steps = math.ceil(batches / count) * loop["num_epochs"]
    else:
        job_steps = batches * loop["num_epochs"] // count
    once = loading.get("split_batches", False) or not with_optimizer
    schedule = build_schedule(spec, optimizer.optimizer, job_steps * (1 if once else accelerator.num_processes))
    model, schedule = accelerator.prepare(model, schedule)
    evaluation = None
    if "evaluation" in data:
        size = data.get("evaluation_batch_size", data["batch_size"])
        evaluation = accelerator.prepare(DataLoader(load_dataset(data["evaluation"], folder), batch_size=size))

    return types.SimpleNamespace(
        spec=spec,
        accelerator=accelerator,
        model=model,
        optimizer=optimizer,
        schedule=schedule,
        loader=prepared_loader,
        evaluation=evaluation,
        adjust=adjust,
        num_steps=count,
        each=accumulation.get("sync_each_batch", False),
    )


def save(run, result, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / f"result_{run.accelerator.process_index}.json").write_text(json.dumps(result))
    if run.accelerator.is_main_process:
        save_file(run.accelerator.unwrap_model(run.model).state_dict(), out / "model.safetensors")


def optimizer_step(run, result):
    """The step, and what the scaler, where there is one, made of it."""
    run.optimizer.step()
    scaler = run.accelerator.scaler
    if scaler is None or not run.accelerator.sync_gradients:
        return
    run.optimizer._is_overflow = scaler.overflowed
    if scaler.is_enabled():
        result["scales"].append(scaler.get_scale())
        result["skipped"].append(scaler.skipped_steps)


def train(job, out):
    run = prepare(job)
    spec, accelerator, model, optimizer, schedule = run.spec, run.accelerator, run.model, run.optimizer, run.schedule
    loop = spec["loop"]
    statistics = CompressionStatistics()
    powerSGD_hook.logger.addHandler(statistics)
    criterion = loss_function(spec)
    result = {"losses": [], "rates": [], "norms": [], "evaluations": [], "scales": [], "skipped": []}
    plateau = spec.get("schedule", {}).get("reduce_on_plateau")
    metric = plateau.get("metric", "eval/loss") if plateau is not None else None
    model.train()
    start = time.perf_counter()
    training_seconds = 0.0
    group = []
    for _ in range(loop["num_epochs"]) if "num_epochs" in loop else itertools.count():
        if ended(loop, result):
            break
        start = time.perf_counter()
        epoch_losses = []
        for features, target in run.loader:
            with accelerator.accumulate(model):
                if "lbfgs" in spec["optimizer"]:
                    group.append(lbfgs_step(accelerator, model, optimizer, criterion, features, target))
                else:
                    loss = criterion(model(features), target)
                    accelerator.backward(loss)
                    group.append(loss.item())
                if accelerator.sync_gradients:
                    clip_gradients(run, result)
                    result["rates"].append(schedule.get_last_lr()[0])
                if "lbfgs" not in spec["optimizer"]:
                    optimizer_step(run, result)
                for _ in [] if plateau is not None else group if run.adjust and accelerator.sync_gradients else [None]:
                    schedule.step()
                optimizer.zero_grad()
                if accelerator.sync_gradients:
                    result["losses"].append(sum(group) / len(group))
                    if metric == "train/loss":
                        mean = torch.tensor(result["losses"][-1], dtype=torch.float64)
                        epoch_losses.append(accelerator.reduce(mean, reduction="mean").item())
                    result.setdefault("first_step_time", time.time())
                    group = []
            if ended(loop, result):
                break
        training_seconds += time.perf_counter() - start
        if run.evaluation is not None:
            result["evaluations"].append(evaluate(model, run.evaluation, spec, accelerator))
        if plateau is not None:
            # As a script does it that leaves this schedule unprepared: once for each value.
            value = sum(epoch_losses) / len(epoch_losses) if metric == "train/loss" else result["evaluations"][-1][metric]
            schedule.scheduler.step(value)
    result["steps_per_second"] = len(result["losses"]) / training_seconds
    result["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    powerSGD_hook.logger.removeHandler(statistics)
    result["compression"] = statistics.rows
    save(run, result, out)
    return accelerator


def main(jobs_path, out, train=train):
    accelerator = None
    correct_power_sgd()
    powerSGD_hook.logger.setLevel(logging.INFO)
    for name, job in json.loads(pathlib.Path(jobs_path).read_text()).items():
        # Each job configures an accelerator of its own; the process group stays.
        AcceleratorState._reset_state()
        GradientState._reset_state()
        accelerator = train(job, pathlib.Path(out) / name)
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
