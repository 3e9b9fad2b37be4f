"""One rank of `torchrun loader_peer.py SETTINGS.json OUT`: the batches of accelerate's prepared loaders.

SETTINGS.json lists {"samples", "batch_size", "order": "sequential" | "seedable" | "running" | "stream", "shuffle_buffer",
"seed", "epochs", "drop_last", "split_batches", "dispatch_batches"}. Writes OUT/<rank>.json, a list for each setting of its
batches: {"epoch", "batch", "samples", "last", "kept"}; `kept` is what gather_for_metrics returns.
"""

import json
import pathlib
import sys

import torch
from accelerate import Accelerator
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from streams import Stream  # noqa: E402


def unprepared_loader(setting):
    dataset = TensorDataset(torch.arange(setting["samples"]))
    options = {"batch_size": setting["batch_size"], "drop_last": setting["drop_last"]}
    if setting["order"] == "stream":
        return DataLoader(Stream(dataset, setting["shuffle_buffer"], setting["seed"]), **options)
    generator = torch.Generator().manual_seed(setting["seed"])
    shuffles = setting["order"] != "sequential"
    sampler = RandomSampler(dataset, generator=generator) if shuffles else SequentialSampler(dataset)
    return DataLoader(dataset, sampler=sampler, **options)


def batches(accelerator, setting):
    loader = prepare_data_loader(
        unprepared_loader(setting),
        device=accelerator.device,
        put_on_device=True,
        split_batches=setting["split_batches"],
        dispatch_batches=setting["dispatch_batches"],
        use_seedable_sampler=setting["order"] == "seedable",
        data_seed=setting["seed"],
    )
    for epoch in range(setting["epochs"]):
        for i, (numbers,) in enumerate(loader):
            yield {
                "epoch": epoch,
                "batch": i,
                "samples": numbers.tolist(),
                "last": int(accelerator.gradient_state.end_of_dataloader),
                "kept": accelerator.gather_for_metrics(numbers).tolist(),
            }


def main(settings, out):
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    result = [list(batches(accelerator, setting)) for setting in json.loads(pathlib.Path(settings).read_text())]
    (pathlib.Path(out) / f"{accelerator.process_index}.json").write_text(json.dumps(result))
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
