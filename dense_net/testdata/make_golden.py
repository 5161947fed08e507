#!/usr/bin/env python3
"""Writes golden_<name>.txt for every model below: one training step and one scoring pass by
PyTorch in double precision. Lines are `name value value ...`; the model's line is text format
of ModelOptions. Run it with PyTorch installed: make_golden.py DIRECTORY [NAME ...]."""
import sys
import torch

torch.set_default_dtype(torch.float64)
ROWS, SLOTS, IDS, DIM, RAWS = 13, 3, 6, 4, 2


class Golden:
    """Inputs drawn once, shared by module and file. Rows are [linear, embedding]."""

    def __init__(self, seed, model, last_counts=None):
        """`last_counts`: values of the last slot, row by row; else drawn, as those of the others."""
        torch.manual_seed(seed)
        self.lines = [("model", model)]
        self.params = []
        self.rows = torch.nn.Parameter(self.draw(IDS, 1 + DIM))
        self.raw = self.draw(ROWS, RAWS)
        self.labels = torch.randint(0, 2, (ROWS,)).double()
        self.counts = torch.randint(0, 4, (SLOTS, ROWS))
        if last_counts:
            self.counts[-1] = torch.tensor(last_counts)
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

    def layer_norm(self, name, width):
        layer = torch.nn.LayerNorm(width)
        layer.weight.data = self.draw(width) + 1
        layer.bias.data = self.draw(width)
        self.params += [(name + ".scale", layer.weight, False), (name + ".shift", layer.bias, False)]
        return layer

    def prelu(self, name, width):
        layer = torch.nn.PReLU(width)
        layer.weight.data = self.draw(width)
        self.params.append((name + ".slope", layer.weight, False))
        return layer

    def mlp(self, inputs, hidden, name="mlp", norm=True, activation=None):
        """`activation` makes a layer's activation from its name and width; default ReLU."""
        layers = []
        for i, width in enumerate(hidden):
            layer = f"{name}.{i}"
            layers.append(self.linear(layer, inputs, width))
            if norm:
                layers.append(self.norm(layer + ".norm", width))
            layers.append(activation(layer + ".activation", width) if activation else torch.nn.ReLU())
            inputs = width
        return torch.nn.Sequential(*layers)

    def param(self, name, *shape):
        tensor = torch.nn.Parameter(self.draw(*shape))
        self.params.append((name, tensor, False))
        return tensor

    def first_order(self):
        """LR: a function that gives its logit."""
        bias = self.param("linear.bias", 1)
        raw = self.linear("linear.raw", RAWS, 1, bias=False)
        return lambda: bias + self.pooled[:, :, 0].sum(1) + raw(self.raw)[:, 0]

    def fields(self):
        return self.pooled[:, :, 1:]

    def pair_dots(self):
        v = self.fields()
        i, j = torch.triu_indices(SLOTS, SLOTS, 1)
        return (v[:, i] * v[:, j]).sum(2)

    def finish(self, module, logit, path):
        """A model of one logit, by its log loss."""
        def loss(z):
            return torch.nn.functional.binary_cross_entropy_with_logits(z, self.labels)
        self.write(module, logit, torch.sigmoid, loss, path)

    def write(self, module, forward, scores, loss, path):
        """`forward` gives what `scores`, (rows, outputs), and `loss` are functions of."""
        def layout(tensor, transposed):
            return tensor.t() if transposed else tensor
        before = {name: t.detach().clone() for name, t, _ in self.params}
        for name, tensor, transposed in self.params:
            self.put("param." + name, layout(tensor, transposed))
        module.eval()
        self.put("eval_scores", scores(forward()))
        module.train()
        z = forward()
        value = loss(z)
        value.backward()
        self.put("loss", value)
        self.put("train_scores", scores(z))
        self.put("grad_rows", self.rows.grad)
        for name, tensor, transposed in self.params:
            change = tensor.grad if tensor.grad is not None else tensor - before[name]
            self.put("grad." + name, layout(change, transposed))
        with open(path, "w") as out:
            out.writelines(f"{name} {values}\n" for name, values in self.lines)

    def deep_input(self):
        return torch.cat([self.fields().reshape(ROWS, -1), self.raw], 1)


DEEP = SLOTS * DIM + RAWS
PAIRS = SLOTS * (SLOTS - 1) // 2
NOTHING = torch.nn.Module()


def lr(path):
    g = Golden(11, "lr {}")
    g.finish(NOTHING, g.first_order(), path)


def fm(path):
    g = Golden(12, "fm {}")
    first = g.first_order()
    g.finish(NOTHING, lambda: first() + g.pair_dots().sum(1), path)


def dnn(path):
    g = Golden(13, "dnn { hidden: 7 hidden: 5 batch_norm: true }")
    mlp, top = g.mlp(DEEP, [7, 5]), g.linear("mlp.logit", 5, 1)
    g.finish(mlp, lambda: top(mlp(g.deep_input()))[:, 0], path)


def wide_deep(path):
    g = Golden(14, "wide_deep { hidden: 6 activation: SIGMOID }")
    first = g.first_order()
    mlp = g.mlp(DEEP, [6], norm=False, activation=lambda name, width: torch.nn.Sigmoid())
    top = g.linear("mlp.logit", 6, 1)
    g.finish(mlp, lambda: first() + top(mlp(g.deep_input()))[:, 0], path)


def deepfm(path):
    g = Golden(1, "deepfm { hidden: 7 hidden: 5 batch_norm: true }")
    first = g.first_order()
    mlp = g.mlp(DEEP, [7, 5])
    top = g.linear("mlp.logit", 5, 1)
    g.finish(mlp, lambda: first() + g.pair_dots().sum(1) + top(mlp(g.deep_input()))[:, 0], path)


def dcnv2(path):
    g = Golden(2, "dcnv2 { cross_layers: 2 hidden: 6 hidden: 5 batch_norm: true }")
    cross = [g.linear(f"cross.{i}", DEEP, DEEP) for i in range(2)]
    mlp = g.mlp(DEEP, [6, 5])
    top = g.linear("logit", DEEP + 5, 1)

    def logit():
        x0 = x = g.deep_input()
        for layer in cross:
            x = x0 * layer(x) + x
        return top(torch.cat([x, mlp(x0)], 1))[:, 0]
    g.finish(mlp, logit, path)


def fwfm(path):
    g = Golden(3, "fwfm {}")
    first = g.first_order()
    weights = g.linear("pairs.weights", PAIRS, 1, bias=False)
    g.finish(NOTHING, lambda: first() + weights(g.pair_dots())[:, 0], path)


def nfm(path):
    g = Golden(4, "nfm { hidden: 6 hidden: 5 batch_norm: true }")
    first = g.first_order()
    mlp, top = g.mlp(DIM + RAWS, [6, 5]), g.linear("mlp.logit", 5, 1)

    def logit():
        v = g.fields()
        pooled = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1))
        return first() + top(mlp(torch.cat([pooled, g.raw], 1)))[:, 0]
    g.finish(mlp, logit, path)


def dcn(path):
    g = Golden(5, "dcn { cross_layers: 3 hidden: 6 batch_norm: true }")
    cross = [(g.linear(f"cross.{i}", DEEP, 1, bias=False), g.param(f"cross.{i}.combine.bias", DEEP))
             for i in range(3)]
    mlp, top = g.mlp(DEEP, [6]), g.linear("logit", DEEP + 6, 1)

    def logit():
        x0 = x = g.deep_input()
        for weight, bias in cross:
            x = x0 * weight(x) + bias + x
        return top(torch.cat([x, mlp(x0)], 1))[:, 0]
    g.finish(mlp, logit, path)


def xdeepfm(path):
    maps = [5, 3]
    g = Golden(6, "xdeepfm { cin: 5 cin: 3 hidden: 6 batch_norm: true }")
    first = g.first_order()
    layers, inputs = [], SLOTS
    for i, n in enumerate(maps):
        layers.append((g.linear(f"cin.{i}", SLOTS * inputs, n),
                       g.linear(f"cin.{i}.logit", n, 1, bias=i == 0)))
        inputs = n
    mlp, top = g.mlp(DEEP, [6]), g.linear("mlp.logit", 6, 1)

    def logit():
        x0 = x = g.fields()
        total = first() + top(mlp(g.deep_input()))[:, 0]
        for layer, weight in layers:
            z = torch.einsum("bhd,bmd->bdhm", x0, x).reshape(ROWS, DIM, -1)
            x = layer(z).transpose(1, 2)
            total = total + weight(x.sum(2))[:, 0]
        return total
    g.finish(mlp, logit, path)


def pnn(path, kind, seed):
    g = Golden(seed, f"pnn {{ product: {kind} hidden: 6 batch_norm: true }}")
    bilinear = g.linear("bilinear", DIM, DIM, bias=False) if kind == "BILINEAR" else None
    width = {"INNER": PAIRS, "OUTER": DIM * DIM, "BILINEAR": PAIRS * DIM}[kind]
    mlp, top = g.mlp(DEEP + width, [6]), g.linear("mlp.logit", 6, 1)

    def products():
        v = g.fields()
        if kind == "INNER":
            return g.pair_dots()
        if kind == "OUTER":
            return torch.einsum("bi,bj->bij", v.sum(1), v.sum(1)).reshape(ROWS, -1)
        i, j = torch.triu_indices(SLOTS, SLOTS, 1)
        return (bilinear(v)[:, i] * v[:, j]).reshape(ROWS, -1)
    g.finish(mlp, lambda: top(mlp(torch.cat([g.deep_input(), products()], 1)))[:, 0], path)


def dlrm(path):
    g = Golden(20, "dlrm { bottom: 5 hidden: 6 }")
    bottom = g.mlp(RAWS, [5, DIM], name="bottom", norm=False)
    pairs = SLOTS * (SLOTS + 1) // 2
    mlp, top = g.mlp(DIM + pairs, [6], norm=False), g.linear("mlp.logit", 6, 1)

    def logit():
        dense = bottom(g.raw)
        v = torch.cat([dense[:, None], g.fields()], 1)
        i, j = torch.triu_indices(SLOTS + 1, SLOTS + 1, 1)
        return top(mlp(torch.cat([dense, (v[:, i] * v[:, j]).sum(2)], 1)))[:, 0]
    g.finish(mlp, logit, path)


def autoint(path):
    heads, dim = 2, 6
    g = Golden(21, "autoint { attention_layers: 2 heads: 2 attention_dim: 6 layer_norm: true wide: true "
                   "hidden: 6 batch_norm: true }")
    layers, inputs = [], DIM
    for i in range(2):
        name = f"attention.{i}"
        q, k, v = (g.linear(f"{name}.{part}", inputs, dim, bias=False) for part in "qkv")
        residual = g.linear(name + ".residual", inputs, dim, bias=False) if inputs != dim else None
        layers.append((q, k, v, residual, g.layer_norm(name + ".norm", dim)))
        inputs = dim
    top = g.linear("attention.logit", SLOTS * dim, 1)
    first = g.first_order()
    mlp, deep = g.mlp(DEEP, [6]), g.linear("mlp.logit", 6, 1)

    def split(x):
        return x.reshape(ROWS, SLOTS, heads, dim // heads).transpose(1, 2)

    def logit():
        x = g.fields()
        for q, k, v, residual, norm in layers:
            weights = torch.softmax(split(q(x)) @ split(k(x)).transpose(2, 3) / (dim // heads) ** 0.5, 3)
            mixed = (weights @ split(v(x))).transpose(1, 2).reshape(ROWS, SLOTS, dim)
            x = torch.relu(norm(mixed + (x if residual is None else residual(x))))
        return top(x.reshape(ROWS, -1))[:, 0] + first() + deep(mlp(g.deep_input()))[:, 0]
    g.finish(mlp, logit, path)


def finalmlp(path, own, seed, contexts):
    """`own`: the slots that the MLPs read, with the raws; `contexts`: those of the two gates."""
    gate_only = " gate_only: true" if len(own) < SLOTS else ""
    named = " ".join(f'gate{n}: "f{s}"' for n, context in zip((1, 2), contexts) for s in context)
    g = Golden(seed, "finalmlp { mlp1 { hidden: 6 batch_norm: true } mlp2 { hidden: 4 } heads: 2 gate_hidden: 5 "
                     f"{named}{gate_only} }}")
    width = len(own) * DIM + RAWS
    gates = []
    for n, context in zip((1, 2), contexts):
        hidden = g.mlp(DIM * len(context), [5], name=f"gate{n}", norm=False)
        gates.append((context, hidden, g.linear(f"gate{n}.logit", 5, width)))
    mlp1 = g.mlp(width, [6], name="mlp1")
    mlp2 = g.mlp(width, [4], name="mlp2", norm=False)
    w1, w2 = g.linear("logit.1", 6, 1), g.linear("logit.2", 4, 1, bias=False)
    fusion = g.param("fusion.weight", 2, 3, 2)

    def logit():
        x = torch.cat([g.fields()[:, own].reshape(ROWS, -1), g.raw], 1)
        x1, x2 = (x * 2 * torch.sigmoid(top(hidden(g.fields()[:, context].reshape(ROWS, -1))))
                  for context, hidden, top in gates)
        a, b = mlp1(x1), mlp2(x2)
        both = torch.einsum("bhi,hij,bhj->b", a.reshape(ROWS, 2, 3), fusion, b.reshape(ROWS, 2, 2))
        return w1(a)[:, 0] + w2(b)[:, 0] + both
    g.finish(torch.nn.ModuleList([mlp1, mlp2]), logit, path)


def activations(path):
    g = Golden(23, "dnn { hidden: 7 hidden: 5 activation: PRELU layer_norm: true }")
    layers, inputs = [], DEEP
    for i, width in enumerate([7, 5]):
        layers += [g.linear(f"mlp.{i}", inputs, width), g.layer_norm(f"mlp.{i}.norm", width),
                   g.prelu(f"mlp.{i}.activation", width)]
        inputs = width
    mlp, top = torch.nn.Sequential(*layers), g.linear("mlp.logit", 5, 1)
    g.finish(mlp, lambda: top(mlp(g.deep_input()))[:, 0], path)


def simple(path, kind, module, seed):
    g = Golden(seed, f"dnn {{ hidden: 7 hidden: 5 activation: {kind} }}")
    mlp = g.mlp(DEEP, [7, 5], norm=False, activation=lambda name, width: module())
    top = g.linear("mlp.logit", 5, 1)
    g.finish(mlp, lambda: top(mlp(g.deep_input()))[:, 0], path)


def residual(path, kind, seed):
    groups, width = 2, 6
    inner_width = 2 * width if kind == "WIDE" else width
    g = Golden(seed, f"dnn {{ hidden: 6 activation: TANH residual {{ kind: {kind} factor: 2 groups: {groups} }} }}")
    first, top = g.linear("mlp.0", DEEP, width), g.linear("mlp.logit", width, 1)
    if kind == "GROUPED":
        weight, bias = g.param("mlp.0.block.0.1.weight", groups, 3, 3), g.param("mlp.0.block.0.1.bias", groups, 3)

        def inner(x):
            return (torch.einsum("bgi,gij->bgj", x.reshape(ROWS, groups, 3), weight) + bias).reshape(ROWS, -1)
    else:
        inner = g.linear("mlp.0.block.0.1", width, inner_width)
    outer = g.linear("mlp.0.block.0.2", inner_width, width)

    def logit():
        x = torch.tanh(first(g.deep_input()))
        return top(torch.tanh(x + outer(torch.tanh(inner(x)))))[:, 0]
    g.finish(NOTHING, logit, path)


def low_rank(path):
    """Experts one by one, as the paper has them: x0 * (U_e tanh(C_e tanh(V_e x)) + b) by gates, plus x."""
    rank, experts = 3, 2
    g = Golden(29, f"dcnv2 {{ cross_layers: 2 rank: {rank} experts: {experts} }}")
    layers = []
    for i in range(2):
        name = f"cross.{i}"
        layers.append((g.param(name + ".v.weight", DEEP, experts, rank), g.param(name + ".c.weight", experts, rank, rank),
                       g.param(name + ".weight", experts, rank, DEEP), g.param(name + ".bias", DEEP),
                       g.linear(name + ".gate", DEEP, experts, bias=False)))
    top = g.linear("logit", DEEP, 1)

    def logit():
        x0 = x = g.deep_input()
        for v, c, u, b, gate in layers:
            gates = torch.softmax(gate(x), 1)
            mixed = sum(gates[:, e:e + 1] * (x0 * (torch.tanh(torch.tanh(x @ v[:, e]) @ c[e]) @ u[e] + b))
                        for e in range(experts))
            x = mixed + x
        return top(x)[:, 0]
    g.finish(NOTHING, logit, path)


MODELS = {
    "residual": lambda path: residual(path, "PLAIN", 26),
    "residual_wide": lambda path: residual(path, "WIDE", 27),
    "residual_grouped": lambda path: residual(path, "GROUPED", 28),
    "low_rank": low_rank,
    "lr": lr, "fm": fm, "dnn": dnn, "wide_deep": wide_deep, "deepfm": deepfm, "dcnv2": dcnv2, "fwfm": fwfm, "nfm": nfm,
    "dcn": dcn, "xdeepfm": xdeepfm, "dlrm": dlrm, "autoint": autoint, "prelu": activations,
    "finalmlp": lambda path: finalmlp(path, [0, 1, 2], 22, [[0], [2, 1]]),
    "finalmlp_gate_only": lambda path: finalmlp(path, [1], 30, [[0], [2]]),
    "ipnn": lambda path: pnn(path, "INNER", 7),
    "opnn": lambda path: pnn(path, "OUTER", 8),
    "bilinear": lambda path: pnn(path, "BILINEAR", 9),
    "gelu": lambda path: simple(path, "GELU", torch.nn.GELU, 24),
    "leaky_relu": lambda path: simple(path, "LEAKY_RELU", torch.nn.LeakyReLU, 25),
}
if __name__ == "__main__":
    for model in sys.argv[2:] or MODELS:
        MODELS[model](f"{sys.argv[1]}/golden_{model}.txt")
