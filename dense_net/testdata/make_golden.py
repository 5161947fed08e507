#!/usr/bin/env python3
"""Writes golden_deepfm.txt and golden_dcnv2.txt: one training step and one scoring pass of
each model by PyTorch in double precision. Lines are `name value value ...`; the model's line
is text format of ModelOptions. Run it with PyTorch installed: make_golden.py DIRECTORY."""
import sys
import torch

torch.set_default_dtype(torch.float64)
ROWS, SLOTS, IDS, DIM, RAWS = 13, 3, 6, 4, 2


class Golden:
    """Inputs drawn once, shared by module and file. Rows are [linear, embedding]."""

    def __init__(self, seed, model):
        torch.manual_seed(seed)
        self.lines = [("model", model)]
        self.params = []
        self.rows = torch.nn.Parameter(self.draw(IDS, 1 + DIM))
        self.raw = self.draw(ROWS, RAWS)
        self.labels = torch.randint(0, 2, (ROWS,)).double()
        self.counts = torch.randint(0, 4, (SLOTS, ROWS))
        self.index = [torch.randint(0, IDS, (int(self.counts[s].sum()),)) for s in range(SLOTS)]
        for name, tensor in [("rows", self.rows), ("raw", self.raw), ("labels", self.labels)]:
            self.put(name, tensor)
        for s in range(SLOTS):
            self.put(f"counts.{s}", self.counts[s])
            self.put(f"index.{s}", self.index[s])
        self.pooled = torch.stack([self.pool(s) for s in range(SLOTS)], 1)  # (rows, slots, 1 + dim)

    @staticmethod
    def draw(*shape):
        return torch.randn(*shape).float().double() * 0.5

    def put(self, name, tensor):
        values = tensor.detach().reshape(-1).tolist()
        self.lines.append((name, " ".join(repr(v) for v in values)))

    def pool(self, s):
        entry = torch.repeat_interleave(torch.arange(ROWS), self.counts[s])
        return torch.zeros(ROWS, 1 + DIM).index_add(0, entry, self.rows[self.index[s]])

    def linear(self, name, inputs, outputs, bias=True):
        layer = torch.nn.Linear(inputs, outputs, bias=bias)
        layer.weight.data = self.draw(outputs, inputs)
        self.params.append((name + ".weight", layer.weight, True))
        if bias:
            layer.bias.data = self.draw(outputs)
            self.params.append((name + ".bias", layer.bias, False))
        return layer

    def norm(self, name, width):
        layer = torch.nn.BatchNorm1d(width)
        layer.weight.data = self.draw(width) + 1
        layer.bias.data = self.draw(width)
        layer.running_mean.data = self.draw(width)
        layer.running_var.data = self.draw(width) ** 2 + 0.5
        self.params += [(name + ".scale", layer.weight, False), (name + ".shift", layer.bias, False)]
        self.params += [(name + ".running_mean", layer.running_mean, False),
                        (name + ".running_var", layer.running_var, False)]
        return layer

    def mlp(self, inputs, hidden):
        layers = []
        for i, width in enumerate(hidden):
            layers += [self.linear(f"mlp.{i}", inputs, width), self.norm(f"mlp.{i}.norm", width),
                       torch.nn.ReLU()]
            inputs = width
        return torch.nn.Sequential(*layers)

    def finish(self, module, logit, path):
        def layout(tensor, transposed):
            return tensor.t() if transposed else tensor
        before = {name: t.detach().clone() for name, t, _ in self.params}
        for name, tensor, transposed in self.params:
            self.put("param." + name, layout(tensor, transposed))
        module.eval()
        self.put("eval_scores", torch.sigmoid(logit()))
        module.train()
        z = logit()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(z, self.labels)
        loss.backward()
        self.put("loss", loss)
        self.put("train_scores", torch.sigmoid(z))
        self.put("grad_rows", self.rows.grad)
        for name, tensor, transposed in self.params:
            change = tensor.grad if tensor.grad is not None else tensor - before[name]
            self.put("grad." + name, layout(change, transposed))
        with open(path, "w") as out:
            out.writelines(f"{name} {values}\n" for name, values in self.lines)

    def deep_input(self):
        return torch.cat([self.pooled[:, :, 1:].reshape(ROWS, -1), self.raw], 1)


def deepfm(path):
    g = Golden(1, "deepfm { hidden: 7 hidden: 5 batch_norm: true }")
    bias = torch.nn.Parameter(g.draw(1))
    g.params.append(("linear.bias", bias, False))
    raw = g.linear("linear.raw", RAWS, 1, bias=False)
    mlp = g.mlp(SLOTS * DIM + RAWS, [7, 5])
    top = g.linear("mlp.logit", 5, 1)

    def logit():
        v = g.pooled[:, :, 1:]
        second = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1)
        first = bias + g.pooled[:, :, 0].sum(1) + raw(g.raw)[:, 0]
        return first + second + top(mlp(g.deep_input()))[:, 0]
    g.finish(mlp, logit, path)


def dcnv2(path):
    g = Golden(2, "dcnv2 { cross_layers: 2 hidden: 6 hidden: 5 batch_norm: true }")
    width = SLOTS * DIM + RAWS
    cross = [g.linear(f"cross.{i}", width, width) for i in range(2)]
    mlp = g.mlp(width, [6, 5])
    top = g.linear("logit", width + 5, 1)

    def logit():
        x0 = x = g.deep_input()
        for layer in cross:
            x = x0 * layer(x) + x
        return top(torch.cat([x, mlp(x0)], 1))[:, 0]
    g.finish(mlp, logit, path)


deepfm(sys.argv[1] + "/golden_deepfm.txt")
dcnv2(sys.argv[1] + "/golden_dcnv2.txt")
