#!/usr/bin/env python3
"""The same models on Frappe_x1 by PyTorch: tells a shortfall of ours from one of the data.

    python tests/results/frappe_torch.py --data DIR [--models dnn,nfm,finalmlp] [--seeds 3]

Wants PyTorch and pyarrow (the peers' folder of tools/compare has them). Settings, early stop and
selection are those of frappe.py, whose DIR it reads; Adam is that of the published runs (1.0.1), which
adds eps before the bias correction, where frappe.py has it so. Prints a line of JSON a run.
"""
import argparse
import json
import pathlib

import numpy as np
import pyarrow.csv as csv
import torch
from torch import nn
from torch.nn import functional

FIELDS = "user item daytime weekday isweekend homework cost weather country city".split()
DIM, BATCH, START = 10, 4096, 1e-4
WIDTH = len(FIELDS) * DIM


def mlp(width, hidden, dropout, norm):
    layers = []
    for out in hidden:
        layers.append(nn.Linear(width, out))
        layers += [nn.BatchNorm1d(out)] if norm else []
        layers += [nn.ReLU(), nn.Dropout(dropout)]
        width = out
    return nn.Sequential(*layers)


class Dnn(nn.Module):
    l2, eps_uncorrected, extra = 0.05, False, []

    def __init__(self):
        super().__init__()
        self.deep, self.top = mlp(WIDTH, [400] * 3, 0.2, True), nn.Linear(400, 1)

    def forward(self, emb, linear):
        return self.top(self.deep(emb.flatten(1)))[:, 0]


class Nfm(nn.Module):
    l2, eps_uncorrected, extra = 1e-4, True, []

    def __init__(self):
        super().__init__()
        self.deep, self.top = mlp(DIM, [400] * 3, 0.4, False), nn.Linear(400, 1)

    def forward(self, emb, linear):
        pairs = 0.5 * (emb.sum(1) ** 2 - (emb ** 2).sum(1))
        return self.top(self.deep(pairs))[:, 0] + linear


class FinalMlp(nn.Module):
    l2, eps_uncorrected, extra = 0.05, False, ["user", "item"]  # Read once more, for the gates.

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([nn.Sequential(nn.Linear(DIM, 400), nn.ReLU(),
                                                  nn.Linear(400, WIDTH), nn.Sigmoid())
                                    for _ in range(2)])
        self.deep = nn.ModuleList([mlp(WIDTH, [400], 0.4, True), mlp(WIDTH, [100], 0.4, True)])
        self.first, self.second = nn.Linear(400, 1), nn.Linear(100, 1, bias=False)
        self.fusion = nn.Parameter(nn.init.xavier_normal_(torch.empty(5 * 80 * 20, 1)).view(5, 80, 20))

    def forward(self, emb, linear):
        x = emb[:, :len(FIELDS)].flatten(1)
        a, b = (deep(x * 2 * gate(emb[:, len(FIELDS) + i]))
                for i, (deep, gate) in enumerate(zip(self.deep, self.gates)))
        both = torch.einsum("bhi,hij,bhj->b", a.view(-1, 5, 80), self.fusion, b.view(-1, 5, 20))
        return self.first(a)[:, 0] + self.second(b)[:, 0] + both


MODELS = {"dnn": Dnn, "nfm": Nfm, "finalmlp": FinalMlp}


class OldAdam(torch.optim.Optimizer):
    """PyTorch 1.0.1's: eps stands beside the root before its bias correction."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].lerp_(p.grad, 0.1)
                state["v"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                rate = group["lr"] * (1 - 0.999 ** state["step"]) ** 0.5 / (1 - 0.9 ** state["step"])
                p.addcdiv_(state["m"], state["v"].sqrt().add_(1e-8), value=-rate)


def load(source, extra):
    """{part: (ids (n, fields), labels)}, ids of all columns in one range, and how many there are.

    As in Starling an id that train does not hold has no row: number 0, whose weights stay zero.
    """
    tables = {p: csv.read_csv(source / f"{p}.csv.gz") for p in ("train", "valid", "test")}
    columns, total = {p: [] for p in tables}, 1
    for field in FIELDS + extra:
        known = np.unique(tables["train"][field].to_numpy())
        for part, table in tables.items():
            values = table[field].to_numpy()
            at = np.minimum(np.searchsorted(known, values), len(known) - 1)
            columns[part].append(np.where(known[at] == values, at + total, 0))
        total += len(known)
    return {p: (torch.from_numpy(np.stack(columns[p], 1)),
                torch.from_numpy(t["label"].to_numpy().astype(np.float32)))
            for p, t in tables.items()}, total


def auc_of(scores, labels):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.bincount(inverse, ranks) / counts)[inverse]
    clicks = labels.sum()
    return (ranks[labels > 0].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks))


def run(name, seed, source):
    torch.manual_seed(seed)
    model = MODELS[name]()
    data, total = load(source, model.extra)
    rows = nn.Embedding(total, DIM + 1, padding_idx=0)  # The last float: first-order weight.
    nn.init.normal_(rows.weight, std=START)
    with torch.no_grad():
        rows.weight[:, DIM], rows.weight[0] = 0, 0
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    params = [*rows.parameters(), *model.parameters()]
    optimizer = (OldAdam if model.eps_uncorrected else torch.optim.Adam)(params, lr=1e-3)

    def logits(ids):
        emb = rows(ids)
        return model(emb[:, :, :DIM], emb[:, :, DIM].sum(1))

    def score(part):
        model.eval()
        with torch.no_grad():
            scores = torch.cat([logits(ids) for ids in data[part][0].split(BATCH)])
        model.train()
        return auc_of(scores.numpy(), data[part][1].numpy())

    ids, labels = data["train"]
    best = {"valid": 0.0}
    short = epoch = 0
    while short < 2 and epoch < 100:
        epoch += 1
        for pick in torch.randperm(len(ids)).split(BATCH):
            loss = functional.binary_cross_entropy_with_logits(logits(ids[pick]), labels[pick])
            loss = loss + model.l2 / 2 * (rows.weight ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        valid = score("valid")
        if valid > best["valid"] + 1e-6:
            best, short = {"valid": valid, "auc": score("test"), "epoch": epoch}, 0
        else:
            short += 1
            for group in optimizer.param_groups:
                group["lr"] *= 0.1
    return {"model": name, "seed": seed, **best}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.models.split(","):
        for seed in range(1, args.seeds + 1):
            print(json.dumps(run(name, seed, args.data)), flush=True)


if __name__ == "__main__":
    main()
