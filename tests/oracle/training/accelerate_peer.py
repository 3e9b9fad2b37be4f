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
from accelerate.utils import (
    AutocastKwargs,
    DataLoaderConfiguration,
    DistributedDataParallelKwargs,
    GradientAccumulationPlugin,
)
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


def build_optimizer(spec, parameters):
    name, options = next(iter(spec["optimizer"].items()))
    options = dict(options)
    if name == "sgd":
        return torch.optim.SGD(parameters, fused=True, **options)
    betas = (options.pop("beta1", 0.9), options.pop("beta2", 0.999))
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(parameters, betas=betas, fused=True, **options)


def build_schedule(spec, optimizer, job_steps):
    name, options = next(iter(spec.get("schedule", {"constant": {}}).items()))
    warmup, total = options.get("warmup_steps", 0), options.get("total_steps", job_steps)

    def factor(step):
        if name == "constant":
            return 1.0
        if step < warmup:
            return step / warmup
        if name == "linear":
            return max(0.0, (total - step) / (total - warmup))
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup)))))

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
    accumulation = {"num_steps": 1, **config.get("gradient_accumulation_plugin", {})}
    count, with_optimizer = accumulation["num_steps"], config.get("step_scheduler_with_optimizer", True)
    accelerator = Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(**{**loading, "data_seed": data_seed}),
        mixed_precision=config.get("mixed_precision", "no"),
        kwargs_handlers=[
            DistributedDataParallelKwargs(**config.get("ddp_kwargs", {})),
            AutocastKwargs(**config.get("autocast_kwargs", {})),
        ],
        step_scheduler_with_optimizer=with_optimizer,
        gradient_accumulation_plugin=GradientAccumulationPlugin(**accumulation),
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
    optimizer = build_optimizer(spec, model.parameters())
    optimizer, prepared_loader = accelerator.prepare(optimizer, loader)
    # Accelerate does nothing with adjust_scheduler; what it is documented to do is done below.
    adjust = count > 1 and accumulation.get("adjust_scheduler", True) and with_optimizer
    batches = len(prepared_loader)
    if adjust or not with_optimizer:
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

    criterion, clipping = loss_function(spec), loop.get("clipping", {})
    result = {"losses": [], "rates": [], "norms": [], "evaluations": []}
    model.train()
    start = time.perf_counter()
    training_seconds = 0.0
    group = []
    for _ in range(loop["num_epochs"]):
        start = time.perf_counter()
        for features, target in prepared_loader:
            with accelerator.accumulate(model):
                loss = criterion(model(features), target)
                accelerator.backward(loss)
                group.append(loss.item())
                if accelerator.sync_gradients:
                    if "max_norm" in clipping:
                        norm = accelerator.clip_grad_norm_(model.parameters(), clipping["max_norm"])
                        result["norms"].append(norm.item())
                    if "max_value" in clipping:
                        accelerator.clip_grad_value_(model.parameters(), clipping["max_value"])
                    result["rates"].append(schedule.get_last_lr()[0])
                optimizer.step()
                for _ in group if adjust and accelerator.sync_gradients else [None]:
                    schedule.step()
                optimizer.zero_grad()
                if accelerator.sync_gradients:
                    result["losses"].append(sum(group) / len(group))
                    group = []
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
