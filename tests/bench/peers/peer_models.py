"""The dense parts, on pooled embeddings: emb (B, slots, dim), linear (B) or None, numbers (B, width)."""
import torch
from torch import nn

DIM = 16


def mlp(width, hidden, last_relu=True):
    layers = []
    for i, out in enumerate(hidden):
        layers.append(nn.Linear(width, out))
        if last_relu or i + 1 < len(hidden):
            layers.append(nn.ReLU())
        width = out
    return nn.Sequential(*layers)


class DeepFM(nn.Module):
    linear = True  # Has a first-order weight an id.

    def __init__(self, slots, numbers):
        super().__init__()
        self.first_order = nn.Linear(numbers, 1)
        self.deep = mlp(slots * DIM + numbers, [400, 400, 400])
        self.out = nn.Linear(400, 1)

    def forward(self, emb, linear, numbers):
        total = emb.sum(1)
        fm = 0.5 * (total * total - (emb * emb).sum(1)).sum(1)
        x = torch.cat([emb.flatten(1), numbers], 1)
        return (self.out(self.deep(x)) + self.first_order(numbers)).squeeze(1) + fm + linear


class DCNv2(nn.Module):
    linear = False

    def __init__(self, slots, numbers):
        super().__init__()
        width = slots * DIM + numbers
        self.cross = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.deep = mlp(width, [400, 400, 400])
        self.out = nn.Linear(width + 400, 1)

    def forward(self, emb, linear, numbers):
        x0 = x = torch.cat([emb.flatten(1), numbers], 1)
        for layer in self.cross:
            x = x0 * layer(x) + x
        return self.out(torch.cat([x, self.deep(x0)], 1)).squeeze(1)


class DLRM(nn.Module):
    linear = False

    def __init__(self, slots, numbers):
        super().__init__()
        self.bottom = mlp(numbers, [512, 256, DIM])
        pairs = torch.tril_indices(slots + 1, slots + 1, -1)
        self.register_buffer("pairs", pairs[0] * (slots + 1) + pairs[1])
        self.fill = -(DIM + pairs.shape[1]) % 16
        self.top = mlp(DIM + pairs.shape[1] + self.fill, [512, 256])
        self.out = nn.Linear(256, 1)

    def forward(self, emb, linear, numbers):
        d = self.bottom(numbers)
        v = torch.cat([d.unsqueeze(1), emb], 1)
        dots = torch.bmm(v, v.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        x = torch.cat([d, dots, d.new_zeros(len(d), self.fill)], 1)
        return self.out(self.top(x)).squeeze(1)


class Pooled(nn.Module):
    linear = False

    def __init__(self, slots, numbers):
        super().__init__()
        self.deep = mlp(slots * DIM, [200, 80])
        self.out = nn.Linear(80, 1)

    def forward(self, emb, linear, numbers):
        return self.out(self.deep(emb.flatten(1))).squeeze(1)


def init_(model):
    """As Starling starts them, so that AUCs can be compared."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


MODELS = {"deepfm": DeepFM, "dcnv2": DCNv2, "dlrm": DLRM, "pooled": Pooled}
