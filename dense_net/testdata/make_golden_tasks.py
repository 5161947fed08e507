#!/usr/bin/env python3
"""Writes the golden files of losses and of models of several tasks, as make_golden.py does of
the others. Rows have two labels, weights and groups: make_golden_tasks.py DIRECTORY."""
import sys
import torch
from torch.nn.functional import logsigmoid, softplus
from make_golden import DIM, RAWS, ROWS, SLOTS, Golden

WIDTH = SLOTS * DIM + RAWS
TWO_TASKS = " | name: 'a' label: 'y0' | name: 'b' label: 'y1' weight: 0.5"


class TaskGolden(Golden):
    def __init__(self, seed, model):
        super().__init__(seed, model)
        self.y = torch.stack([self.labels, torch.randint(0, 2, (ROWS,)).double()], 1)
        self.w = self.draw(ROWS).abs() + 0.5
        self.groups = torch.randint(0, 4, (ROWS,))
        self.lines = [line for line in self.lines if line[0] != "labels"]
        for name, tensor in [("labels", self.y), ("weights", self.w), ("groups", self.groups)]:
            self.put(name, tensor)

    def mlp(self, name, inputs, hidden):
        layers = []
        for i, width in enumerate(hidden):
            layers += [self.linear(f"{name}.{i}", inputs, width), torch.nn.ReLU()]
            inputs = width
        return torch.nn.Sequential(*layers)

    def log_loss(self, z, task, positive_weight=1.0):
        y = self.y[:, task]
        return (self.w * (positive_weight * y * softplus(-z) + (1 - y) * softplus(z))).mean()

    def logit_model(self, loss, path, scores=torch.sigmoid):
        """An MLP with one logit, by any loss."""
        mlp = self.mlp("mlp", WIDTH, [5])
        top = self.linear("mlp.logit", 5, 1)
        self.write(mlp, lambda: top(mlp(self.deep_input()))[:, 0], scores, loss, path)

    def experts(self, name, inputs, count, hidden):
        """All experts side by side: (rows, count, width)."""
        first = self.linear(f"{name}.0", inputs, count * hidden[0])
        later = []
        for i in range(1, len(hidden)):
            weight = torch.nn.Parameter(self.draw(count, hidden[i - 1], hidden[i]))
            bias = torch.nn.Parameter(self.draw(count, hidden[i]))
            self.params += [(f"{name}.{i}.weight", weight, False), (f"{name}.{i}.bias", bias, False)]
            later.append((weight, bias))

        def run(x):
            x = torch.relu(first(x)).reshape(ROWS, count, hidden[0])
            for weight, bias in later:
                x = torch.relu(torch.einsum("bek,ekn->ben", x, weight) + bias)
            return x
        return run

    def gate(self, name, inputs, count):
        layer = self.linear(name, inputs, count)
        return lambda x, experts: (torch.softmax(layer(x), 1)[:, :, None] * experts).sum(1)

    def tower(self, task, inputs, hidden):
        mlp = self.mlp(f"{task}.tower", inputs, hidden)
        top = self.linear(f"{task}.tower.logit", hidden[-1], 1)
        return lambda x: top(mlp(x))[:, 0]

    def write_two(self, forward, path):
        self.write(torch.nn.Module(), forward, torch.sigmoid,
                   lambda z: self.log_loss(z[:, 0], 0) + 0.5 * self.log_loss(z[:, 1], 1), path)


def log(path):
    g = TaskGolden(3, "dnn { hidden: 5 } | name: 'a' label: 'y1' loss { log { positive_weight: 3 } }")
    g.logit_model(lambda z: g.log_loss(z, 1, 3.0), path)


def focal(path):
    g = TaskGolden(4, "dnn { hidden: 5 } | name: 'a' label: 'y0' given: 'y1' loss { focal { gamma: 2 alpha: 0.25 } }")

    def loss(z):
        p, y = torch.sigmoid(z), g.y[:, 0]
        each = -0.25 * y * (1 - p) ** 2 * logsigmoid(z) - 0.75 * (1 - y) * p ** 2 * logsigmoid(-z)
        return (g.w * g.y[:, 1] * each).mean()
    g.logit_model(loss, path)


def mse(path):
    g = TaskGolden(5, "dnn { hidden: 5 } | name: 'a' label: 'y1' weight: 0.5 loss { mse {} }")
    g.logit_model(lambda z: 0.5 * (g.w * (z - g.y[:, 1]) ** 2).mean(), path, scores=lambda z: z)


def pairwise(path):
    g = TaskGolden(6, "dnn { hidden: 5 } | name: 'a' label: 'y1' loss { pairwise {} }")
    y = g.y[:, 1]
    pairs = (g.groups[:, None] == g.groups[None, :]) & (y[:, None] > y[None, :])
    g.logit_model(lambda z: ((g.w[:, None] * softplus(z[None, :] - z[:, None]))[pairs]).mean(), path)


def esmm(path):
    g = TaskGolden(7, "esmm { hidden: 5 }" + TWO_TASKS)
    towers = []
    for name in ("click", "conversion"):
        mlp = g.mlp(name, WIDTH, [5])
        towers.append((mlp, g.linear(name + ".logit", 5, 1)))

    def forward():
        return torch.cat([top(mlp(g.deep_input())) for mlp, top in towers], 1)

    def scores(z):
        p = torch.sigmoid(z)
        return torch.stack([p[:, 0], p[:, 0] * p[:, 1], p[:, 1]], 1)

    def loss(z):
        p, y = scores(z)[:, 1], g.y[:, 1]
        product = -(g.w * (y * p.log() + (1 - y) * (1 - p).log())).mean()
        return g.log_loss(z[:, 0], 0) + 0.5 * product
    g.write(torch.nn.Module(), forward, scores, loss, path)


def mmoe(path):
    g = TaskGolden(8, "mmoe { experts: 3 expert { hidden: 5 hidden: 4 } tower { hidden: 3 } }" + TWO_TASKS)
    experts = g.experts("experts", WIDTH, 3, [5, 4])
    parts = []
    for task in "ab":
        gate = g.gate(task + ".gate", WIDTH, 3)
        parts.append((gate, g.tower(task, 4, [3])))

    def forward():
        x = g.deep_input()
        mixed = experts(x)
        return torch.stack([tower(gate(x, mixed)) for gate, tower in parts], 1)
    g.write_two(forward, path)


def ple(path):
    g = TaskGolden(9, "ple { levels: 2 shared_experts: 1 task_experts: 2 expert { hidden: 4 } tower { hidden: 3 } }" + TWO_TASKS)
    levels, width = [], WIDTH
    for level in range(2):
        own = [g.experts(f"{task}.{level}.experts", width, 2, [4]) for task in "ab"]
        shared = g.experts(f"shared.{level}.experts", width, 1, [4])
        gates = [g.gate(f"{task}.{level}.gate", width, 3) for task in "ab"]
        if level == 0:
            gates.append(g.gate("shared.0.gate", width, 5))
        levels.append((own, shared, gates))
        width = 4
    towers = [g.tower(task, 4, [3]) for task in "ab"]

    def forward():
        x = [g.deep_input()] * 3
        for own, shared, gates in levels:
            all_of = [own[0](x[0]), own[1](x[1]), shared(x[2])]
            inputs = [torch.cat([all_of[0], all_of[2]], 1), torch.cat([all_of[1], all_of[2]], 1), torch.cat(all_of, 1)]
            x = [gate(x[i], inputs[i]) for i, gate in enumerate(gates)]
        return torch.stack([tower(x[t]) for t, tower in enumerate(towers)], 1)
    g.write_two(forward, path)


def towers_of(g, hidden):
    """User f0, r0; item f1, f2, r1."""
    users = g.mlp("user", DIM + 1, hidden[:-1])
    user = g.linear("user.vector", ([DIM + 1] + hidden)[-2], hidden[-1])
    items = g.mlp("item", 2 * DIM + 1, hidden[:-1])
    item = g.linear("item.vector", ([2 * DIM + 1] + hidden)[-2], hidden[-1])

    def run():
        v = g.pooled[:, :, 1:]
        u = user(users(torch.cat([v[:, 0], g.raw[:, :1]], 1)))
        i = item(items(torch.cat([v[:, 1], v[:, 2], g.raw[:, 1:]], 1)))
        return u, i
    return run


SIDES = "user: 'f0' user: 'r0' item: 'f1' item: 'f2' item: 'r1'"


def dssm(path):
    g = TaskGolden(10, f"dssm {{ {SIDES} tower {{ hidden: 5 hidden: 4 }} temperature: 0.5 }} | name: 'a' label: 'y1'")
    run = towers_of(g, [5, 4])
    bias = torch.nn.Parameter(g.draw(1))
    g.params.append(("match.bias", bias, False))

    def forward():
        u, v = run()
        return torch.cosine_similarity(u, v, 1) / 0.5 + bias
    g.write(torch.nn.Module(), forward, torch.sigmoid, lambda z: g.log_loss(z, 1), path)


def softmax(path):
    g = TaskGolden(11, f"dssm {{ {SIDES} match: DOT tower {{ hidden: 4 }} temperature: 2 }} | name: 'a' label: 'y1' "
                       "loss { sampled_softmax { item: 'f1' } }")
    run = towers_of(g, [4])
    first = torch.full((ROWS,), -1)
    starts = torch.cumsum(g.counts[1], 0) - g.counts[1]
    for row in range(ROWS):
        if g.counts[1][row] > 0:
            first[row] = g.index[1][starts[row]]
    count = torch.tensor([1 if i < 0 else int((first == i).sum()) for i in first.tolist()]).double()

    def forward():
        u, v = run()
        return u @ v.t() / 2

    def loss(s):
        each = torch.logsumexp(s - count.log()[None, :], 1) - s.diagonal()
        return (g.w * g.y[:, 1] * each).mean()
    g.write(torch.nn.Module(), forward, lambda s: torch.sigmoid(s.diagonal()), loss, path)


for make in (log, focal, mse, pairwise, esmm, mmoe, ple, dssm, softmax):
    make(f"{sys.argv[1]}/golden_{make.__name__}.txt")
