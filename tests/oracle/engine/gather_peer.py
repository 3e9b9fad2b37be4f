"""One rank of `torchrun gather_peer.py <samples> <batch size> <file>`: what gather_for_metrics keeps of each batch."""

import sys

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch.utils.data import DataLoader, TensorDataset

n, batch_size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(DataLoader(TensorDataset(torch.arange(n)), batch_size=batch_size))
kept = {str(i): accelerator.gather_for_metrics(batch[0]) for i, batch in enumerate(loader)}
if accelerator.is_main_process:
    save_file(kept, path)
accelerator.end_training()
