#!/usr/bin/env python3
"""Writes golden_din.txt and golden_dien.txt: as make_golden.py, with the last slot read as a
sequence. Run it with PyTorch installed: make_sequence_golden.py DIRECTORY."""
import sys

import torch

from make_golden import DIM, RAWS, ROWS, SLOTS, Golden

LAST = SLOTS - 1


class Dice(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.alpha = torch.nn.Parameter(Golden.draw(width))
        self.norm = torch.nn.BatchNorm1d(width, affine=False, eps=1e-9, momentum=0.01)
        self.norm.running_mean.data = Golden.draw(width)
        self.norm.running_var.data = Golden.draw(width) ** 2 + 0.5

    def forward(self, x):
        p = torch.sigmoid(self.norm(x))
        return x * p + self.alpha * x * (1 - p)


class SequenceGolden(Golden):
    def __init__(self, seed, model, last_counts=None):
        super().__init__(seed, model, last_counts)
        self.lines.append(("sequence", str(LAST)))
        self.row = torch.repeat_interleave(torch.arange(ROWS), self.counts[LAST])
        self.events = self.rows[self.index[LAST]][:, 1:]
        self.target = self.pooled[:, 0, 1:]

    def dice(self, name, width):
        dice = Dice(width)
        self.params += [(name + ".alpha", dice.alpha, False),
                        (name + ".running_mean", dice.norm.running_mean, False),
                        (name + ".running_var", dice.norm.running_var, False)]
        return dice

    def dice_mlp(self, name, inputs, hidden):
        layers = []
        for i, width in enumerate(hidden):
            layers += [self.linear(f"{name}.{i}", inputs, width), self.dice(f"{name}.{i}.activation", width)]
            inputs = width
        layers.append(self.linear(f"{name}.logit", inputs, 1))
        return torch.nn.Sequential(*layers)

    def attention(self, mlp, events):
        q = self.target[self.row]
        return mlp(torch.cat([q, events, q - events, q * events], 1))

    def top_input(self, interest):
        return torch.cat([self.pooled[:, :LAST, 1:].reshape(ROWS, -1), self.raw, interest], 1)

    def sum_rows(self, x):
        return torch.zeros(ROWS, x.shape[1]).index_add(0, self.row, x)

    def parameter(self, name, *shape):
        parameter = torch.nn.Parameter(self.draw(*shape))
        self.params.append((name, parameter, False))
        return parameter


TOP = LAST * DIM + RAWS + DIM
SPEC = "attention { sequence: 'f2' target: 'f0' } attention_hidden: 6 hidden: 7 hidden: 5"


def din(path, softmax):
    g = SequenceGolden(3, f"din {{ {SPEC} attention_softmax: {str(softmax).lower()} }}")
    attention = g.dice_mlp("attention.0", 4 * DIM, [6])
    top = g.dice_mlp("mlp", TOP, [7, 5])

    def logit():
        weights = g.attention(attention, g.events)
        if softmax:
            e = torch.exp(weights)
            weights = e / g.sum_rows(e)[g.row]
        return top(g.top_input(g.sum_rows(weights * g.events)))[:, 0]
    g.finish(torch.nn.ModuleList([attention, top]), logit, path)


class Gru:
    """Parameters in Starling's order (reset, update, new), where update is 1 - PyTorch's."""

    def __init__(self, g, name):
        self.g = g
        self.w_in, self.b_in = g.parameter(name + ".gates.weight", DIM, 3 * DIM), g.parameter(name + ".gates.bias", 3 * DIM)
        self.w, self.b = g.parameter(name + ".weight", DIM, 3 * DIM), g.parameter(name + ".bias", 3 * DIM)

    def torch_cell(self, x, h):
        def flip(w):
            r, u, n = w.t().chunk(3) if w.dim() == 2 else w.chunk(3)
            return torch.cat([r, -u, n])
        cell = torch.nn.GRUCell(DIM, DIM)
        names = dict(weight_ih=flip(self.w_in), weight_hh=flip(self.w), bias_ih=flip(self.b_in), bias_hh=flip(self.b))
        return torch.func.functional_call(cell, names, (x, h))

    def weighted_cell(self, x, h, weight):
        r, u, n = (x @ self.w_in + self.b_in).chunk(3, 1)
        hr, hu, hn = (h @ self.w + self.b).chunk(3, 1)
        u = torch.sigmoid(u + hu) * weight
        return (1 - u) * h + u * torch.tanh(n + torch.sigmoid(r + hr) * hn)

    def run(self, x, weights=None):
        """The states of all positions, and the last of each row."""
        states, last = [], []
        for row in range(ROWS):
            h = torch.zeros(1, DIM)
            for p in torch.nonzero(self.g.row == row)[:, 0].tolist():
                h = self.torch_cell(x[p:p + 1], h) if weights is None else self.weighted_cell(x[p:p + 1], h, weights[p])
                states.append(h)
            last.append(h)
        return torch.cat(states), torch.cat(last)


def dien(path, evolution):
    g = SequenceGolden(4, f"dien {{ {SPEC} evolution: {evolution} auxiliary_weight: 0 }}")
    extraction, evolving = Gru(g, "attention.0.extraction"), Gru(g, "attention.0.evolution")
    attention = g.dice_mlp("attention.0", 4 * DIM, [6])
    top = g.dice_mlp("mlp", TOP, [7, 5])

    def logit():
        interests, _ = extraction.run(g.events)
        e = torch.exp(g.attention(attention, interests))
        weights = e / g.sum_rows(e)[g.row]
        if evolution == "AIGRU":
            _, last = evolving.run(weights * interests)
        else:
            _, last = evolving.run(interests, weights)
        return top(g.top_input(last))[:, 0]
    g.finish(torch.nn.ModuleList([attention, top]), logit, path)


def auxiliary(path):
    """The event of another row is drawn inside a tile, which the test gives 5 rows: with these
    counts the draw has at most one event to choose from."""
    tile, weight = 5, 0.7
    g = SequenceGolden(5, f"dien {{ {SPEC} auxiliary_weight: {weight} }}", [0, 3, 0, 1, 0, 4, 0, 0, 0, 0, 1, 0, 2])
    extraction, evolving = Gru(g, "attention.0.extraction"), Gru(g, "attention.0.evolution")
    attention = g.dice_mlp("attention.0", 4 * DIM, [6])
    top = g.dice_mlp("mlp", TOP, [7, 5])

    def forward():
        interests, _ = extraction.run(g.events)
        e = torch.exp(g.attention(attention, interests))
        _, last = evolving.run(interests, e / g.sum_rows(e)[g.row])
        return top(g.top_input(last))[:, 0], interests

    def loss(result):
        logit, states = result
        pairs = []
        for p in range(len(g.row) - 1):
            if g.row[p] != g.row[p + 1]:
                continue
            pair = -torch.nn.functional.logsigmoid(states[p] @ g.events[p + 1])
            others = [o for o in range(len(g.row)) if g.row[o] // tile == g.row[p] // tile and g.row[o] != g.row[p]]
            assert len(others) <= 1
            for o in others:
                pair = pair - torch.nn.functional.logsigmoid(-(states[p] @ g.events[o]))
            pairs.append(pair)
        click = torch.nn.functional.binary_cross_entropy_with_logits(logit, g.labels)
        return click + weight * torch.stack(pairs).mean()
    g.write(torch.nn.ModuleList([attention, top]), forward, lambda result: torch.sigmoid(result[0]), loss, path)


if __name__ == "__main__":
    din(sys.argv[1] + "/golden_din.txt", False)
    din(sys.argv[1] + "/golden_din_softmax.txt", True)
    dien(sys.argv[1] + "/golden_dien.txt", "AUGRU")
    dien(sys.argv[1] + "/golden_dien_aigru.txt", "AIGRU")
    auxiliary(sys.argv[1] + "/golden_auxiliary.txt")
