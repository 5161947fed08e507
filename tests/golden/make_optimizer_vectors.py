#!/usr/bin/env python3
"""Writes base/testdata/optimizers/<rule>.json, the vectors that base/optimizer_test.cc replays.

Nothing here is built or run by the project. Run it by hand, with torch and numpy installed:

    python3 tests/golden/make_optimizer_vectors.py

Everything is computed in float64 from inputs that are floats. "source" in a file says by whom:
  torch.optim:  sgd, momentum, adagrad, adam, adamw, rmsprop, adadelta. Each row is a parameter with an optimiser of its
                own, so that it counts its own steps, as a lazy row does.
  this script:  rowwise_adagrad, group_adagrad, lamb, ftrl, group_ftrl, count: the published rules, written out below. adam is
                written out too and must agree with torch.optim.

Conventions that differ between libraries, and ours, which are PyTorch's: eps stands outside the root in adagrad, adam and
rmsprop (TensorFlow's RMSprop has it inside) and inside in adadelta; momentum does not hold the rate (TensorFlow's old
optimiser did); l2 is PyTorch's weight_decay, adamw's is decoupled. Clipping is ours: torch's clip_grad_norm_ adds 1e-6 to
the norm.

A file: "dims" of the rows; "start", weights by row; "grads", by step and row, null where the row is not touched; "cases",
each with "options" (text format of OptimizerOptions), "scales" (lr_scale by step) and "weights", the rows after each of
"after" steps.
"""
import json
import math
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "base/testdata/optimizers"
DIMS = [1, 3, 11]  # The last is a vector of 8 and a rest.
STEPS = 20
AFTER = [1, 2, 3, 7, 20]
WARMUP = [min(1.0, (t + 1) / 8) for t in range(STEPS)]


def inputs(name):
    rng = np.random.default_rng(sum(ord(c) * 31**i for i, c in enumerate(name)))
    f32 = lambda x: x.astype(np.float32).astype(np.float64)
    start = [f32(rng.normal(0, 0.5, d)) for d in DIMS]
    grads = [[f32(rng.normal(0, 1, d)) for d in DIMS] for _ in range(STEPS)]
    for t in range(STEPS):
        if t % 3 == 1:
            grads[t][1] = None  # Untouched.
    grads[4] = [np.zeros(d) for d in DIMS]
    return start, grads


class Torch:
    """A row stepped by torch.optim."""

    def __init__(self, w, make, lr):
        self.p = torch.nn.Parameter(torch.tensor(w))
        self.opt, self.lr = make([self.p]), lr

    def step(self, g, scale):
        self.opt.param_groups[0]["lr"] = self.lr * scale
        self.p.grad = torch.tensor(g)
        self.opt.step()
        return self.p.detach().numpy().copy()


class Rule:
    """A row stepped by a rule of this script: a generator function of (w, options) that takes (g, scale)."""

    def __init__(self, w, rule, options):
        self.run = rule(w.copy(), **options)
        next(self.run)

    def step(self, g, scale):
        return self.run.send((g, scale)).copy()


def rowwise_adagrad(w, lr, eps, initial_accumulator=0.0):
    a = initial_accumulator
    while True:
        g, scale = yield w
        a += np.mean(g**2)
        w = w - lr * scale * g / (math.sqrt(a) + eps)


def group_adagrad(w, lr, beta, lambda_=0.0, initial_accumulator=0.0):
    a = initial_accumulator
    while True:
        g, scale = yield w
        a += np.max(g**2)
        eta = lr * scale / (beta + math.sqrt(a))
        z = g - w / eta
        norm = math.sqrt(np.sum(z**2))
        w = np.zeros_like(w) if norm < lambda_ else -eta * (1 - lambda_ / norm) * z


def adam(w, lr, beta1, beta2, eps):
    m, v, t = np.zeros_like(w), np.zeros_like(w), 0
    while True:
        g, scale = yield w
        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - lr * scale * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)


def lamb(w, lr, beta1, beta2, eps, weight_decay):
    m, v, t = np.zeros_like(w), np.zeros_like(w), 0
    while True:
        g, scale = yield w
        t += 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        d = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * w
        lengths = math.sqrt(np.sum(w**2)), math.sqrt(np.sum(d**2))
        w = w - lr * scale * (lengths[0] / lengths[1] if min(lengths) > 0 else 1.0) * d


def ftrl(w, lr, beta, l1=0.0, l2=0.0, lambda_=0.0):
    z, n = np.zeros_like(w), np.zeros_like(w)
    while True:
        g, scale = yield w
        alpha = lr * scale
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
        z = z + g - sigma * w
        n = n + g**2
        w = np.where(np.abs(z) <= l1, 0.0, (np.sign(z) * l1 - z) / ((beta + np.sqrt(n)) / alpha + l2))
        if math.sqrt(np.sum(z**2)) < lambda_ * math.sqrt(len(z)):
            w = np.zeros_like(w)


def count(w, amount):
    while True:
        yield w
        w = w + amount


def text(rule, options, common):
    own = " ".join(f"{k.rstrip('_')}: {str(v).lower()}" for k, v in options.items())
    return " ".join([f"{rule} {{ {own} }}", *(f"{k}: {v}" for k, v in common.items())])


def run_case(rows, start, grads, scales, l2=0.0, clip=0.0):
    w, after = [s.copy() for s in start], []
    for t in range(STEPS):
        for r, g in enumerate(grads[t]):
            if g is None:
                continue
            norm = math.sqrt(np.sum(g**2))
            if 0 < clip < norm:
                g = g * (clip / norm)
            w[r] = rows[r].step(g + l2 * w[r], scales[t])
        if t + 1 in AFTER:
            after.append([row.copy() for row in w])
    return after


def floats(rows):
    """Nine digits say a float exactly; the rounding of a weight is far below the tolerance."""
    return None if rows is None else [float(f"{x:.9g}") for x in rows]


def write(rule, source, make_row, cases):
    start, grads = inputs(rule)
    out = {"source": source, "dims": DIMS, "after": AFTER, "start": [floats(s) for s in start],
           "grads": [[floats(g) for g in step] for step in grads], "cases": []}
    for case in cases:
        options, common = case[0], case[1] if len(case) > 1 else {}
        scales = case[2] if len(case) > 2 else [1.0] * STEPS
        rows = [make_row(w, options) for w in start]
        weights = run_case(rows, start, grads, scales, **common)
        if rule == "adam":
            again = run_case([Rule(w, adam, options) for w in start], start, grads, scales, **common)
            assert all(np.allclose(a, b, rtol=1e-12, atol=0) for x, y in zip(weights, again) for a, b in zip(x, y))
        if options.get("lambda_", 0) or options.get("l1", 0):
            zeros = [bool(np.all(row == 0)) for step in weights for row in step]
            some = [bool(np.any(row == 0)) for step in weights for row in step]
            print(rule, options, "zero rows:", sum(zeros), "rows with zeros:", sum(some), "of", len(zeros))
        out["cases"].append({"options": text(rule, options, common), "scales": scales,
                             "weights": [[floats(r) for r in step] for step in weights]})
    lines = json.dumps(out).replace('"start"', '\n"start"').replace('"grads"', '\n"grads"').replace('{"options"', '\n{"options"')
    (OUT / f"{rule}.json").write_text(lines + "\n")


def write_torch(rule, make, cases):
    write(rule, f"torch.optim {torch.__version__.split('+')[0]}, float64",
          lambda w, o: Torch(w, lambda p: make(p, o), o["lr"]), cases)


def write_rule(name, rule, cases):
    write(name, "tests/golden/make_optimizer_vectors.py, float64", lambda w, o: Rule(w, rule, o), cases)


L2_CLIP = {"l2": 0.05, "clip": 1.5}
optim = torch.optim
write_torch("sgd", lambda p, o: optim.SGD(p, lr=o["lr"]), [
    ({"lr": 0.1},), ({"lr": 0.1}, L2_CLIP), ({"lr": 0.3}, {}, WARMUP)])
write_torch("momentum", lambda p, o: optim.SGD(p, lr=o["lr"], momentum=o["momentum"], nesterov=o["nesterov"]), [
    ({"lr": 0.05, "momentum": 0.9, "nesterov": False},), ({"lr": 0.05, "momentum": 0.9, "nesterov": True},),
    ({"lr": 0.1, "momentum": 0.5, "nesterov": True}, L2_CLIP), ({"lr": 0.1, "momentum": 0.8, "nesterov": False}, {}, WARMUP)])
write_torch("adagrad", lambda p, o: optim.Adagrad(p, lr=o["lr"], eps=o["eps"], initial_accumulator_value=o["initial_accumulator"]), [
    ({"lr": 0.2, "eps": 1e-10, "initial_accumulator": 0.0},), ({"lr": 0.2, "eps": 0.01, "initial_accumulator": 0.1}, L2_CLIP),
    ({"lr": 0.5, "eps": 1e-6, "initial_accumulator": 1.0}, {}, WARMUP)])
ADAMS = [{"lr": 0.05, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, {"lr": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 0.01},
         {"lr": 0.1, "beta1": 0.0, "beta2": 0.99, "eps": 1e-6}]
write_torch("adam", lambda p, o: optim.Adam(p, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"]), [
    (ADAMS[0],), (ADAMS[1], L2_CLIP), (ADAMS[2], {}, WARMUP)])
write_torch("adamw", lambda p, o: optim.AdamW(p, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], weight_decay=o["weight_decay"]), [
    (ADAMS[0] | {"weight_decay": 0.01},), (ADAMS[1] | {"weight_decay": 0.5}, {"clip": 1.5}),
    (ADAMS[2] | {"weight_decay": 0.1}, {}, WARMUP)])
write_rule("lamb", lamb, [
    (ADAMS[0] | {"weight_decay": 0.01},), (ADAMS[1] | {"weight_decay": 0.5}, {"clip": 1.5}),
    (ADAMS[2] | {"weight_decay": 0.0}, L2_CLIP, WARMUP)])
write_torch("rmsprop", lambda p, o: optim.RMSprop(p, lr=o["lr"], alpha=o["rho"], eps=o["eps"]), [
    ({"lr": 0.02, "rho": 0.9, "eps": 1e-8},), ({"lr": 0.02, "rho": 0.99, "eps": 0.01}, L2_CLIP),
    ({"lr": 0.1, "rho": 0.5, "eps": 1e-6}, {}, WARMUP)])
write_torch("adadelta", lambda p, o: optim.Adadelta(p, lr=o["lr"], rho=o["rho"], eps=o["eps"]), [
    ({"lr": 1.0, "rho": 0.9, "eps": 1e-6},), ({"lr": 2.0, "rho": 0.95, "eps": 1e-3}, L2_CLIP),
    ({"lr": 1.0, "rho": 0.5, "eps": 1e-4}, {}, WARMUP)])
write_rule("rowwise_adagrad", rowwise_adagrad, [
    ({"lr": 0.2, "eps": 1e-10},), ({"lr": 0.2, "eps": 0.01, "initial_accumulator": 0.1}, L2_CLIP),
    ({"lr": 0.5, "eps": 1e-6}, {}, WARMUP)])
write_rule("group_adagrad", group_adagrad, [
    ({"lr": 0.2, "beta": 1.0},), ({"lr": 0.3, "beta": 0.5, "lambda_": 2.0},),
    ({"lr": 0.2, "beta": 0.1, "lambda_": 0.3, "initial_accumulator": 0.1}, L2_CLIP),
    ({"lr": 0.5, "beta": 1.0, "lambda_": 0.5}, {}, WARMUP)])
write_rule("ftrl", ftrl, [
    ({"lr": 0.1, "beta": 1.0},), ({"lr": 0.3, "beta": 0.5, "l1": 1.2, "l2": 0.4},),
    ({"lr": 0.2, "beta": 1.0, "l1": 0.1}, L2_CLIP), ({"lr": 0.3, "beta": 1.0, "l1": 0.5}, {}, WARMUP)])
write_rule("group_ftrl", ftrl, [
    ({"lr": 0.1, "beta": 1.0},), ({"lr": 0.3, "beta": 0.5, "l1": 0.2, "l2": 0.4, "lambda_": 1.5},),
    ({"lr": 0.2, "beta": 1.0, "lambda_": 1.0}, L2_CLIP), ({"lr": 0.3, "beta": 1.0, "lambda_": 1.0}, {}, WARMUP)])
write_rule("count", count, [({"amount": 1},), ({"amount": -0.25}, L2_CLIP, WARMUP)])
