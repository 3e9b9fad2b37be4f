"""The PyTorch modules that the engine's models equal, drawn after torch.manual_seed(seed)."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def mlp(spec):
    sizes = spec["layer_sizes"]
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}[spec.get("activation", "relu")]
    dropout = spec.get("dropout", 0)
    layers = [nn.Flatten()]
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(inputs, outputs))
        if i < len(sizes) - 2:
            layers.append(activation())
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)


class ConvNet(nn.Module):
    def __init__(self, spec):
        super().__init__()
        inputs = spec.get("in_channels", 1)
        height, width = spec["height"], spec["width"]
        features = []
        for outputs in spec["channels"]:
            features += [
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
            inputs, height, width = outputs, height // 2, width // 2
        self.features = nn.Sequential(*features)
        dropout = [nn.Dropout(spec["dropout"])] if spec.get("dropout", 0) > 0 else []
        self.classifier = nn.Sequential(
            nn.Flatten(), *dropout, nn.Linear(inputs * height * width, spec["num_classes"])
        )

    def forward(self, x):
        return self.classifier(self.features(x))


class Conv1D(nn.Module):
    """Hugging Face's linear layer of GPT-2: the weight is [in, out]."""

    def __init__(self, inputs, outputs, std):
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(inputs, outputs), std=std))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        flat = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return flat.view(*x.shape[:-1], -1)


def embedding(rows, width):
    # A given weight keeps the module from drawing one of its own.
    return nn.Embedding(rows, width, _weight=nn.init.normal_(torch.empty(rows, width), std=0.02))


class Attention(nn.Module):
    def __init__(self, spec, residual_std):
        super().__init__()
        width = spec["embedding_size"]
        self.heads, self.dropout = spec["num_heads"], spec.get("dropout", 0.0)
        self.c_attn = Conv1D(width, 3 * width, 0.02)
        self.c_proj = Conv1D(width, width, residual_std)
        self.resid_dropout = nn.Dropout(self.dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.resid_dropout(self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width)))


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
    def __init__(self, spec):
        super().__init__()
        residual_std = 0.02 / math.sqrt(2 * spec["num_layers"])
        self.ln_1 = nn.LayerNorm(spec["embedding_size"])
        self.attn = Attention(spec, residual_std)
        self.ln_2 = nn.LayerNorm(spec["embedding_size"])
        self.mlp = FeedForward(spec, residual_std)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        width = spec["embedding_size"]
        self.wte = embedding(spec.get("vocab_size", 256), width)
        self.wpe = embedding(spec["context_length"], width)
        self.drop = nn.Dropout(spec.get("dropout", 0.0))
        self.h = nn.ModuleList(Block(spec) for _ in range(spec["num_layers"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Gpt(nn.Module):
    """Parameters are drawn in the order of their registration, each once."""

    def __init__(self, spec):
        super().__init__()
        self.transformer = Transformer(spec)

    def forward(self, tokens):
        return F.linear(self.transformer(tokens), self.transformer.wte.weight)


def build(spec):
    """The module of a ModelSpec given as a dict."""
    ((kind, fields),) = spec.items()
    return {"mlp": mlp, "convnet": ConvNet, "gpt": Gpt}[kind](fields)
