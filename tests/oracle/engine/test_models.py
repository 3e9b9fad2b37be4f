"""Models against the PyTorch modules: initial values, forward, loss, gradients, dropout."""

import engine
import pytest
import reference_models
import torch
from torch.nn import functional as F

SEED = 1234

CASES = {
    "mlp": {"mlp": {"layer_sizes": [12, 32, 16, 5]}},
    "mlp_gelu": {"mlp": {"layer_sizes": [12, 32, 5], "activation": "gelu"}},
    "mlp_tanh_dropout": {"mlp": {"layer_sizes": [12, 32, 16, 5], "activation": "tanh", "dropout": 0.3}},
    "convnet": {"convnet": {"in_channels": 3, "height": 13, "width": 10, "channels": [4, 6, 8], "num_classes": 5}},
    "convnet_dropout": {"convnet": {"height": 8, "width": 8, "channels": [4], "num_classes": 5, "dropout": 0.5}},
    "gpt": {"gpt": {"context_length": 16, "num_layers": 3, "num_heads": 4, "embedding_size": 32}},
    "gpt_dropout": {
        "gpt": {
            "vocab_size": 50,
            "context_length": 12,
            "num_layers": 2,
            "num_heads": 2,
            "embedding_size": 24,
            "dropout": 0.1,
        }
    },
}


def data_for(spec):
    generator = torch.Generator().manual_seed(5)
    ((kind, fields),) = spec.items()
    if kind == "gpt":
        tokens = torch.randint(fields.get("vocab_size", 256), (3, 11), generator=generator)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    shape = [12] if kind == "mlp" else [fields.get("in_channels", 1), fields["height"], fields["width"]]
    return torch.randn(6, *shape, generator=generator), torch.randint(5, (6,), generator=generator)


def loss_of(kind, output, targets):
    if kind == "gpt":
        return F.cross_entropy(output.view(-1, output.shape[-1]), targets.view(-1))
    return F.cross_entropy(output, targets, label_smoothing=0.1)


@pytest.mark.parametrize("case", CASES)
def test_model(case, tmp_path):
    spec = CASES[case]
    kind = next(iter(spec))
    loss_spec = {"next_token": {}} if kind == "gpt" else {"cross_entropy": {"label_smoothing": 0.1}}
    features, targets = data_for(spec)
    got = engine.dump_model(
        tmp_path, {"model": spec, "loss": loss_spec, "loop": {"seed": SEED}}, features, targets
    )

    torch.manual_seed(SEED)
    model = reference_models.build(spec)
    want = {f"parameter.{n}": p.detach().clone() for n, p in model.named_parameters()}
    want |= {f"buffer.{n}": b.clone() for n, b in model.named_buffers()}
    assert {n for n in got if n.startswith(("parameter.", "buffer."))} == set(want)
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name

    output = model(features)
    loss = loss_of(kind, output, targets)
    loss.backward()
    after = {"output": output, "loss": loss}
    after |= {f"gradient.{n}": p.grad for n, p in model.named_parameters()}
    after |= {f"buffer_after.{n}": b for n, b in model.named_buffers()}
    model.eval()
    after["evaluation_output"] = model(features)
    assert set(got) == set(want) | set(after)
    for name, tensor in after.items():
        torch.testing.assert_close(got[name], tensor.detach(), rtol=1e-6, atol=1e-7, msg=lambda m: f"{name}: {m}")


def test_mse(tmp_path):
    spec = {"mlp": {"layer_sizes": [4, 8, 1]}}
    features, targets = torch.randn(5, 4), torch.randn(5)
    got = engine.dump_model(tmp_path, {"model": spec, "loss": {"mse": {}}, "loop": {"seed": 1}}, features, targets)
    torch.manual_seed(1)
    want = F.mse_loss(reference_models.build(spec)(features), targets.unsqueeze(1))
    torch.testing.assert_close(got["loss"], want.detach(), rtol=1e-6, atol=0)
