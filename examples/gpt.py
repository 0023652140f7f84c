#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A small GPT that learns to continue counting, and survives being killed at any moment.

    torchrun --nproc_per_node 2 examples/gpt.py --dir /lustre/me/ck     # or: python3 examples/gpt.py

Start it again after a kill: it continues where it was, bit for bit, also on another number of
processes. On a GPU if there is one."""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

import cairn.torch

WORDS, LENGTH, WIDTH = 64, 32, 64


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1))

    def forward(self, x):
        x = self.words(x) + self.places(torch.arange(LENGTH, device=x.device))
        return self.out(self.layers(x, self.mask))


def batch(device):
    start = torch.randint(WORDS, (16, 1), device=device)
    stride = torch.randint(1, 4, (16, 1), device=device)
    return (start + stride * torch.arange(LENGTH + 1, device=device)) % WORDS


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", default="checkpoints")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rank = int(os.environ.get("RANK", 0))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.manual_seed(1)
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    parallel = nn.parallel.DistributedDataParallel(model) if dist.is_initialized() else model
    torch.manual_seed(100 + rank)

    ck = cairn.torch.Checkpointer(args.dir, name="gpt", model=model, optimizer=optimizer)
    step = ck.load() or 0
    while step < args.steps:
        step += 1
        x = batch(device)
        loss = nn.functional.cross_entropy(parallel(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.every == 0:
            ck.save(step)
            if rank == 0:
                print(f"step {step} loss {loss.item():.17g}", flush=True)
    ck.close()


main()
