"""Embedding tables with AdaGrad rows, each as its library does it best on a CPU.

A Tables object turns a batch into pooled embeddings (B, slots, width) that carry gradients, and
applies those of the last batch. `prepare` is work that the reader's thread can do.
"""
from concurrent.futures import ThreadPoolExecutor

import torch

LR, EPS, INIT = 0.02, 1e-8, 0.01


def init_(weights):
    """Normal, from one block of draws again and again: PyTorch draws on one thread, for minutes."""
    block = torch.empty(min(len(weights), 1 << 20), weights.shape[1]).normal_(0, INIT)
    for part in weights.split(len(block)):
        part.copy_(block[:len(part)])
    return weights


class TorchTables:
    """PyTorch alone: one tensor of rows. Every id of a batch is looked up and updated once."""

    def __init__(self, shape, width, compiled):
        self.width, self.slots = width, len(shape.rows)
        first = torch.tensor([0] + shape.rows).cumsum(0)
        self.first, total = first[:-1], int(first[-1])
        self.weights = init_(torch.empty(total, width))
        self.state = torch.zeros(total, width)
        self.place = torch.empty(total, dtype=torch.int32)  # Where an id stands in the batch.
        self.rows = self.unique = None
        # Shapes differ from batch to batch: one kernel for all.
        self.update = torch.compile(self.adagrad, dynamic=True) if compiled else self.adagrad

    def prepare(self, batch):
        # Which ids are equal, without sorting: of those that are, the last to write stays.
        if batch.offsets is None:
            rows = (batch.ids.view(self.slots, -1) + self.first[:, None]).view(-1)
        else:
            counts = batch.offsets[batch.rows::batch.rows] - batch.offsets[:-1:batch.rows]
            rows = batch.ids + torch.repeat_interleave(self.first, counts)
        order = torch.arange(len(rows), dtype=torch.int32)
        self.place[rows] = order
        winner = self.place[rows]
        wins = winner == order
        batch.unique = rows[wins]
        batch.inverse = (wins.cumsum(0) - 1)[winner.long()]
        return batch

    def forward(self, batch):
        self.unique = batch.unique
        self.rows = self.weights.index_select(0, batch.unique).requires_grad_()
        if batch.offsets is None:
            slots = self.rows.index_select(0, batch.inverse)
        else:
            slots = torch.nn.functional.embedding_bag(batch.inverse, self.rows, batch.offsets,
                                                      mode="sum", include_last_offset=True)
        return slots.view(self.slots, batch.rows, self.width).transpose(0, 1)

    @staticmethod
    def adagrad(weights, state, unique, grad):
        new = state.index_select(0, unique) + grad * grad
        state.index_copy_(0, unique, new)
        weights.index_add_(0, unique, grad / (new.sqrt() + EPS), alpha=-LR)

    def apply(self):
        with torch.no_grad():
            self.update(self.weights, self.state, self.unique, self.rows.grad)


class FbgemmTables:
    """FBGEMM's table-batched embeddings: lookup, pooling and AdaGrad fused.

    Its backward pass leaves a core idle for part of the time, so a tuned run gives each of PARTS
    threads the tables of about as many ids.
    """

    PARTS = 2

    def __init__(self, shape, width, compiled):
        from fbgemm_gpu.split_embedding_configs import EmbOptimType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import (
            BoundsCheckMode, EmbeddingLocation, PoolingMode)
        from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
            ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen)
        self.width = (width + 3) // 4 * 4  # Its rows are multiples of four floats.
        self.slots = len(shape.rows)
        self.cuts = self.cut(shape, self.PARTS if compiled else 1)
        self.tables = []
        for first, end in self.cuts:
            self.tables.append(SplitTableBatchedEmbeddingBagsCodegen(
                [(rows, self.width, EmbeddingLocation.HOST, ComputeDevice.CPU)
                 for rows in shape.rows[first:end]],
                optimizer=EmbOptimType.EXACT_ADAGRAD, learning_rate=LR, eps=EPS,
                pooling_mode=PoolingMode.SUM, bounds_check_mode=BoundsCheckMode.NONE))
            for weights in self.tables[-1].split_embedding_weights():
                init_(weights)
        self.pool = None
        if len(self.cuts) > 1:
            self.pool = ThreadPoolExecutor(self.PARTS, initializer=torch.set_num_threads,
                                           initargs=(1,))

    @staticmethod
    def cut(shape, parts):
        """[first, end) of the slots of each part."""
        ids = [1] * len(shape.singles) + [20] * len(shape.lists)
        edges, have = [0], 0
        for slot, count in enumerate(ids):
            have += count
            if have >= sum(ids) * len(edges) / parts:
                edges.append(slot + 1)
        return list(zip(edges[:-1], edges[1:]))

    def prepare(self, batch):
        offsets = batch.offsets
        if offsets is None:
            offsets = torch.arange(self.slots * batch.rows + 1)
        batch.parts = []
        for first, end in self.cuts:
            own = offsets[first * batch.rows:end * batch.rows + 1]
            batch.parts.append((batch.ids[own[0]:own[-1]], own - own[0]))
        return batch

    def look_up(self, part, ids, offsets, rows):
        return self.tables[part](ids, offsets).view(rows, -1, self.width)

    def forward(self, batch):
        calls = [(part, *own, batch.rows) for part, own in enumerate(batch.parts)]
        if self.pool is None:
            return self.look_up(*calls[0])
        with_grad = torch.is_grad_enabled()

        def look_up(call):
            with torch.set_grad_enabled(with_grad):
                return self.look_up(*call)

        self.out = list(self.pool.map(look_up, calls))
        self.all = torch.cat([out.detach() for out in self.out], 1).requires_grad_(with_grad)
        return self.all

    def apply(self):
        if self.pool is None:
            return  # The backward pass did.

        def backward(part):
            first, end = self.cuts[part]
            self.out[part].backward(self.all.grad[:, first:end].contiguous())

        list(self.pool.map(backward, range(len(self.cuts))))


class TorchRecTables:
    """TorchRec's own layer on the same fused tables: keyed jagged tensors in, pooled rows out."""

    def __init__(self, shape, width, compiled):
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
        from torchrec import EmbeddingBagConfig, PoolingType
        from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
        self.width = (width + 3) // 4 * 4
        self.slots = shape.slots
        self.bags = FusedEmbeddingBagCollection(
            [EmbeddingBagConfig(name=f"table_{slot}", embedding_dim=self.width, num_embeddings=rows,
                                feature_names=[slot], pooling=PoolingType.SUM)
             for slot, rows in zip(shape.slots, shape.rows)],
            torch.optim.Adagrad, {"lr": LR, "eps": EPS}, device=torch.device("cpu"),
            location=EmbeddingLocation.HOST)
        for name, weights in self.bags.state_dict().items():
            if name.endswith(".weight"):
                init_(weights)

    def prepare(self, batch):
        from torchrec import KeyedJaggedTensor
        offsets = batch.offsets
        if offsets is None:
            offsets = torch.arange(len(self.slots) * batch.rows + 1)
        batch.keyed = KeyedJaggedTensor(keys=self.slots, values=batch.ids, offsets=offsets,
                                        lengths=offsets.diff())
        return batch

    def forward(self, batch):
        return self.bags(batch.keyed).values().view(batch.rows, -1, self.width)

    def apply(self):
        pass  # The backward pass did.


TABLES = {"torch": TorchTables, "fbgemm": FbgemmTables, "torchrec": TorchRecTables}
