"""The same jobs as an Accelerate script: `accelerate_peer.py JOBS.json OUT`, under torchrun or alone.

JOBS.json holds {name: {"spec": JobSpec, "accelerator": AcceleratorConfig, "data": folder of the root `data`}}.
Writes OUT/<name>/result_<rank>.json (losses, learning rates, norms, evaluations, steps per second) and, on
rank 0, OUT/<name>/model.safetensors.
"""

import json
import math
import pathlib
import sys
import time

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DataLoaderConfiguration, DistributedDataParallelKwargs
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


def mlp(spec):
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}[spec.get("activation", "relu")]
    layers = [nn.Flatten()]
    sizes = spec["layer_sizes"]
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i + 2 < len(sizes):
            layers.append(activation())
            if spec.get("dropout", 0) > 0:
                layers.append(nn.Dropout(spec["dropout"]))
    return nn.Sequential(*layers)


class ConvNet(nn.Module):
    def __init__(self, spec):
        super().__init__()
        layers, inputs = [], spec.get("in_channels", 1)
        height, width = spec["height"], spec["width"]
        for outputs in spec["channels"]:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
            inputs, height, width = outputs, height // 2, width // 2
        self.features = nn.Sequential(*layers)
        head = [nn.Flatten()] + ([nn.Dropout(spec["dropout"])] if spec.get("dropout", 0) > 0 else [])
        self.classifier = nn.Sequential(*head, nn.Linear(inputs * height * width, spec["num_classes"]))

    def forward(self, x):
        return self.classifier(self.features(x))


class Conv1D(nn.Module):
    def __init__(self, inputs, outputs, std):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(0.0, std))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        shape = (*x.shape[:-1], self.weight.shape[1])
        return torch.addmm(self.bias, x.reshape(-1, self.weight.shape[0]), self.weight).view(shape)


class Attention(nn.Module):
    def __init__(self, spec, residual_std):
        super().__init__()
        self.heads, self.width, self.dropout = spec["num_heads"], spec["embedding_size"], spec.get("dropout", 0.0)
        self.c_attn = Conv1D(self.width, 3 * self.width, 0.02)
        self.c_proj = Conv1D(self.width, self.width, residual_std)
        self.resid_dropout = nn.Dropout(self.dropout)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.c_attn(x).split(self.width, 2)
        q, k, v = (p.view(batch, length, self.heads, self.width // self.heads).transpose(1, 2) for p in parts)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.resid_dropout(self.c_proj(mixed.transpose(1, 2).reshape(batch, length, self.width)))


class FeedForward(nn.Module):
    def __init__(self, spec, residual_std):
        super().__init__()
        width = spec["embedding_size"]
        self.c_fc = Conv1D(width, 4 * width, 0.02)
        self.c_proj = Conv1D(4 * width, width, residual_std)
        self.act = nn.GELU(approximate="tanh")
        self.dropout = nn.Dropout(spec.get("dropout", 0.0))

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, spec, residual_std):
        super().__init__()
        self.ln_1 = nn.LayerNorm(spec["embedding_size"])
        self.attn = Attention(spec, residual_std)
        self.ln_2 = nn.LayerNorm(spec["embedding_size"])
        self.mlp = FeedForward(spec, residual_std)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


def embedding(rows, width):
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width).normal_(0.0, 0.02))


class Transformer(nn.Module):
    def __init__(self, spec, context_length):
        super().__init__()
        width = spec["embedding_size"]
        residual_std = 0.02 / math.sqrt(2.0 * spec["num_layers"])
        self.wte = embedding(spec.get("vocab_size", 256), width)
        self.wpe = embedding(context_length, width)
        self.drop = nn.Dropout(spec.get("dropout", 0.0))
        self.h = nn.Sequential(*(Block(spec, residual_std) for _ in range(spec["num_layers"])))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1])
        return self.ln_f(self.h(self.drop(self.wte(tokens) + self.wpe(positions))))


class Gpt(nn.Module):
    def __init__(self, spec, context_length):
        super().__init__()
        self.transformer = Transformer(spec, context_length)

    def forward(self, tokens):
        return F.linear(self.transformer(tokens), self.transformer.wte.weight)


def build_model(spec, data):
    if "mlp" in spec["model"]:
        return mlp(spec["model"]["mlp"])
    if "convnet" in spec["model"]:
        return ConvNet(spec["model"]["convnet"])
    gpt = spec["model"]["gpt"]
    return Gpt(gpt, gpt.get("context_length", data.tensors[0].shape[1]))


def load_dataset(dataset, folder):
    path = folder / dataset["file"].removeprefix("data/")
    if "bytes" in dataset:
        length = dataset["bytes"]["sequence_length"]
        tokens = torch.tensor(list(path.read_bytes()))
        starts = range(0, len(tokens) - length, dataset["bytes"].get("stride", length))
        features = torch.stack([tokens[s : s + length] for s in starts])
        targets = torch.stack([tokens[s + 1 : s + length + 1] for s in starts])
        return TensorDataset(features, targets)
    tensors = load_file(path)
    features = tensors["features"]
    if "feature_shape" in dataset:
        features = features.reshape(-1, *dataset["feature_shape"])
    return TensorDataset(features, tensors["targets"])


def loss_function(spec):
    loss = spec["loss"]
    if "mse" in loss:
        return lambda output, target: F.mse_loss(output, target.view_as(output))
    if "next_token" in loss:
        return lambda output, target: F.cross_entropy(output.view(-1, output.shape[-1]), target.reshape(-1))
    smoothing = loss["cross_entropy"].get("label_smoothing", 0.0)
    return lambda output, target: F.cross_entropy(output, target, label_smoothing=smoothing)


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
        return scheduler.OneCycleLR(optimizer, cycle_momentum=False, **options)
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
            output, target = accelerator.gather_for_metrics((model(features), target))
            outputs.append(output)
            targets.append(target)
    model.train()
    output, target = torch.cat(outputs), torch.cat(targets)
    metrics = {"eval/loss": criterion(output, target).item(), "eval/samples": len(target)}
    if "cross_entropy" in spec["loss"]:
        metrics["eval/accuracy"] = (output.argmax(1) == target).double().mean().item()
    return metrics


def train(job, out):
    spec, config, folder = job["spec"], job.get("accelerator", {}), pathlib.Path(job["data"])
    loop, data = spec["loop"], spec["data"]
    torch.set_num_threads(loop.get("num_cpu_threads_per_process", 1))
    seed = loop.get("seed", 42)
    loading = config.get("dataloader_config", {})
    data_seed = loading.get("data_seed", seed)
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(**{**loading, "data_seed": data_seed}),
        kwargs_handlers=[DistributedDataParallelKwargs(**config.get("ddp_kwargs", {}))],
        step_scheduler_with_optimizer=config.get("step_scheduler_with_optimizer", True),
    )
    torch.manual_seed(seed)
    train_data = load_dataset(data["train"], folder)
    model = build_model(spec, train_data)
    order = RandomSampler(train_data, generator=torch.Generator().manual_seed(data_seed))
    loader = DataLoader(
        train_data,
        batch_size=data["batch_size"],
        sampler=order if data.get("shuffle", True) else None,
        drop_last=data.get("drop_last", False),
    )
    optimizer = build_optimizer(spec, model)
    optimizer, prepared_loader = accelerator.prepare(optimizer, loader)
    job_steps = len(prepared_loader) * loop["num_epochs"]
    once = loading.get("split_batches", False) or not config.get("step_scheduler_with_optimizer", True)
    schedule = build_schedule(spec, optimizer.optimizer, job_steps * (1 if once else accelerator.num_processes))
    model, schedule = accelerator.prepare(model, schedule)
    evaluation = None
    if "evaluation" in data:
        size = data.get("evaluation_batch_size", data["batch_size"])
        evaluation = accelerator.prepare(DataLoader(load_dataset(data["evaluation"], folder), batch_size=size))

    criterion, clipping = loss_function(spec), loop.get("clipping", {})
    result = {"losses": [], "rates": [], "norms": [], "evaluations": []}
    model.train()
    start = time.perf_counter()
    training_seconds = 0.0
    for _ in range(loop["num_epochs"]):
        start = time.perf_counter()
        for features, target in prepared_loader:
            loss = criterion(model(features), target)
            accelerator.backward(loss)
            if "max_norm" in clipping:
                result["norms"].append(accelerator.clip_grad_norm_(model.parameters(), clipping["max_norm"]).item())
            if "max_value" in clipping:
                accelerator.clip_grad_value_(model.parameters(), clipping["max_value"])
            result["rates"].append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            result["losses"].append(loss.item())
        training_seconds += time.perf_counter() - start
        if evaluation is not None:
            result["evaluations"].append(evaluate(model, evaluation, spec, accelerator))
    result["steps_per_second"] = len(result["losses"]) / training_seconds
    out.mkdir(parents=True, exist_ok=True)
    (out / f"result_{accelerator.process_index}.json").write_text(json.dumps(result))
    if accelerator.is_main_process:
        save_file(accelerator.unwrap_model(model).state_dict(), out / "model.safetensors")
    return accelerator


def main(jobs_path, out):
    accelerator = None
    for name, job in json.loads(pathlib.Path(jobs_path).read_text()).items():
        # Each job configures an accelerator of its own; the process group stays.
        AcceleratorState._reset_state()
        GradientState._reset_state()
        accelerator = train(job, pathlib.Path(out) / name)
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
