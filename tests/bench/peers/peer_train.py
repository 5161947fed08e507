"""Trains one model by one peer, from Parquet, and prints one line of JSON.

Start-up, table initialisation and compilation are not timed: the clock runs from the end of step
WARM to the end of the last step. AUC is that of the held-out rows after the pass.
"""
import argparse
import json
import resource
import time

import numpy as np
import torch

from peer_data import CRITEO, INDUSTRIAL, Reader, batches_of
from peer_models import DIM, MODELS, init_
from peer_tables import TABLES

WARM = 12


def auc_of(scores, labels):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    # Rows with equal scores share the mean of their ranks.
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.bincount(inverse, ranks) / counts)[inverse]
    clicks = labels.sum()
    return (ranks[labels > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks))


def sgemm_rate():
    """GFLOP/s of 4096 x 400 x 400 products on all threads: what the dense part could reach."""
    a, b = torch.rand(4096, 400), torch.rand(400, 400)
    out = torch.empty(4096, 400)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        times.append(time.perf_counter() - start)
    return 2 * 4096 * 400 * 400 / np.median(times) / 1e9


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=sorted(TABLES), required=True)
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--data", required=True, help="a directory with train/ and eval/")
    parser.add_argument("--rows", type=int, default=0, help="train on so many at most; 0: all")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its own choice")
    parser.add_argument("--seed", type=int, default=7, help="of everything that starts at random")
    parser.add_argument("--compile", action="store_true", help="torch.compile the dense part")
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    shape = INDUSTRIAL if args.model == "pooled" else CRITEO
    model = init_(MODELS[args.model](len(shape.slots), shape.numbers_width))
    tables = TABLES[args.peer](shape, DIM + model.linear, args.compile)
    dense = torch.optim.Adam(model.parameters(), lr=1e-3, fused=args.compile or None)

    def logits_of(emb, numbers):
        linear = emb[:, :, DIM].sum(1) if model.linear else None
        return model(emb[:, :, :DIM], linear, numbers)

    def loss_of(emb, numbers, labels):
        return torch.nn.functional.binary_cross_entropy_with_logits(logits_of(emb, numbers), labels)

    if args.compile:
        loss_of = torch.compile(loss_of)
    reader = Reader(batches_of(f"{args.data}/train", shape, args.batch, args.rows, False),
                    tables.prepare)
    step = rows = 0
    losses = []
    for batch in reader:
        if step == WARM:
            start, used, rows = time.perf_counter(), time.process_time(), 0
        loss = loss_of(tables.forward(batch), batch.numbers, batch.labels)
        loss.backward()
        tables.apply()
        dense.step()
        dense.zero_grad(set_to_none=True)
        losses.append(loss.item())
        step, rows = step + 1, rows + batch.rows
    if step <= WARM:
        raise SystemExit(f"--rows: at least {(WARM + 1) * args.batch} are needed")
    seconds, used = time.perf_counter() - start, time.process_time() - used
    scores, labels = [], []
    with torch.no_grad():
        held_out = batches_of(f"{args.data}/eval", shape, args.batch, 0, True)
        for batch in Reader(held_out, tables.prepare):
            scores.append(logits_of(tables.forward(batch), batch.numbers).numpy())
            labels.append(batch.labels.numpy())
    print(json.dumps({
        "peer": args.peer, "model": args.model, "eval_rows": sum(map(len, labels)), "samples_per_s": rows / seconds, "seconds": seconds,
        "cores": used / seconds, "rows": rows, "auc": auc_of(np.concatenate(scores),
                                                            np.concatenate(labels)),
        "loss": float(np.mean(losses[-50:])), "sgemm_gflops": sgemm_rate(),
        "memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** 20}))


if __name__ == "__main__":
    main()
