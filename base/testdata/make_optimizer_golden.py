#!/usr/bin/env python3
"""Writes optimizer_golden.txt, the vectors that optimizer_test replays.

SGD, AdaGrad and Adam are stepped by torch.optim in float64, FTRL by the formula
of McMahan et al. (2013) in numpy float64. Nothing here is built or run by
the project; run it by hand with torch and numpy installed:

    python3 make_optimizer_golden.py > optimizer_golden.txt

Lines: `case <name> <rule> <key=value ...>`, then `w` (start), and for every
step `g` (gradient) and `w` (weights after it).
"""
import numpy as np
import torch

DIM, STEPS = 5, 8


def line(tag, values):
    print(tag, *(f"{float(v):.9g}" for v in values))


def run(name, rule, options, step):
    rng = np.random.default_rng(len(name) * 1000 + sum(map(ord, name)))
    w = rng.normal(0, 0.5, DIM).astype(np.float32).astype(np.float64)
    print("case", name, rule, *(f"{k}={v}" for k, v in options.items()))
    line("w", w)
    state = {}
    for t in range(STEPS):
        g = rng.normal(0, 1, DIM).astype(np.float32).astype(np.float64)
        if t == 3:
            g[:] = 0
        w = step(w, g, state)
        line("g", g)
        line("w", w)


def torch_step(make, clip=0.0):
    def step(w, g, state):
        if "opt" not in state:
            state["p"] = torch.nn.Parameter(torch.tensor(w))
            state["opt"] = make([state["p"]])
        state["p"].grad = torch.tensor(g)
        if clip:
            torch.nn.utils.clip_grad_norm_([state["p"]], clip)
        state["opt"].step()
        return state["p"].detach().numpy().copy()
    return step


def ftrl_step(lr, beta, l1, l2):
    def step(w, g, state):
        z, n = state.get("z", np.zeros(DIM)), state.get("n", np.zeros(DIM))
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / lr
        z = z + g - sigma * w
        n = n + g * g
        state["z"], state["n"] = z, n
        return np.where(np.abs(z) <= l1, 0.0,
                        (np.sign(z) * l1 - z) / ((beta + np.sqrt(n)) / lr + l2))
    return step


run("sgd", "sgd", {"lr": 0.1}, torch_step(lambda p: torch.optim.SGD(p, lr=0.1)))
run("sgd_l2_clip", "sgd", {"lr": 0.1, "l2": 0.05, "clip": 1.5},
    torch_step(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05), clip=1.5))
run("adagrad", "adagrad", {"lr": 0.2, "eps": 1e-10},
    torch_step(lambda p: torch.optim.Adagrad(p, lr=0.2, eps=1e-10)))
run("adagrad_start_l2", "adagrad", {"lr": 0.2, "eps": 1e-6, "initial_accumulator": 0.1, "l2": 0.01},
    torch_step(lambda p: torch.optim.Adagrad(p, lr=0.2, eps=1e-6, initial_accumulator_value=0.1,
                                             weight_decay=0.01)))
run("adam", "adam", {"lr": 0.05, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    torch_step(lambda p: torch.optim.Adam(p, lr=0.05)))
run("adam_l2", "adam", {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "l2": 0.1},
    torch_step(lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6,
                                          weight_decay=0.1)))
run("ftrl", "ftrl", {"lr": 0.1, "beta": 1.0, "l1": 0.0, "l2_ftrl": 0.0},
    ftrl_step(0.1, 1.0, 0.0, 0.0))
run("ftrl_sparse", "ftrl", {"lr": 0.3, "beta": 0.5, "l1": 1.2, "l2_ftrl": 0.4},
    ftrl_step(0.3, 0.5, 1.2, 0.4))
