"""Data sets that are read from their start to their end, as accel.v1.Streaming describes them."""

import itertools

import torch
from torch.utils.data import IterableDataset


def shuffled(items, size, generator):
    """`items` through a buffer of `size` of them."""
    items = iter(items)
    buffer = list(itertools.islice(items, size))

    def place():
        return torch.randint(len(buffer), (), generator=generator).item()

    for item in items:
        drawn = place()
        yield buffer[drawn]
        buffer[drawn] = item
    while buffer:
        drawn = place()
        yield buffer[drawn]
        buffer[drawn] = buffer[-1]
        buffer.pop()


class Stream(IterableDataset):
    """The samples of a map-style data set, in order or through a buffer."""

    def __init__(self, dataset, shuffle_buffer=0, seed=0):
        super().__init__()
        self.dataset, self.shuffle_buffer, self.seed, self.epoch = dataset, shuffle_buffer, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        items = (self.dataset[i] for i in range(len(self.dataset)))
        if not self.shuffle_buffer:
            return items
        return shuffled(items, self.shuffle_buffer, torch.Generator().manual_seed(self.seed + self.epoch))
