"""The generated Parquet as batches for the peers, decoded by a thread of its own.

A batch has exactly `batch` rows, and its ids are table-major, as fused tables take them: all of the
first slot, then all of the second. What is left at the end is dropped in training, since
torch.compile wants one shape, and is a batch of its own where rows are judged: all of them are.
"""
import glob
import os
import queue
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

# Criteo's, as sample_io/planted_model.cc has them.
CRITEO_ROWS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27,
               14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
# As sample_io/planted_slots.cc has them.
INDUSTRIAL_ROWS = ([round(100 * 10_000 ** (s / 79)) for s in range(80)] + [1_000_000] * 20)


class Shape:
    """What a data set's rows hold."""

    def __init__(self, numbers, singles, lists, rows):
        self.numbers, self.singles, self.lists, self.rows = numbers, singles, lists, rows
        self.slots = singles + lists
        self.columns = ["click"] + numbers + self.slots
        # Zeros fill the numbers up: products of an odd width are slower.
        self.numbers_width = (len(numbers) + 15) // 16 * 16


CRITEO = Shape([f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)], [], CRITEO_ROWS)
INDUSTRIAL = Shape([], [f"S{i}" for i in range(1, 81)], [f"L{i}" for i in range(1, 21)],
                   INDUSTRIAL_ROWS)


class Block:
    """Some rows in memory: labels (n), numbers (n, width), one id array a slot; lists have offsets."""

    def __init__(self, table, shape):
        def column(name):
            chunks = table.column(name)
            return chunks.chunk(0) if chunks.num_chunks == 1 else pa.concat_arrays(chunks.chunks)

        self.n = table.num_rows
        self.labels = column("click").to_numpy().astype(np.float32)
        self.numbers = np.zeros((self.n, shape.numbers_width), np.float32)
        for i, name in enumerate(shape.numbers):
            self.numbers[:, i] = column(name).to_numpy(zero_copy_only=False)
        np.log1p(self.numbers, out=self.numbers)
        self.ids = np.empty((len(shape.singles), self.n), np.int64)
        for i, name in enumerate(shape.singles):
            self.ids[i] = column(name).to_numpy()
        self.lists = []
        for name in shape.lists:
            lists = column(name)
            self.lists.append((lists.offsets.to_numpy(), lists.values.to_numpy()))


class Batch:
    """labels (B), numbers (B, width), ids (all of them), offsets (slots * B + 1)."""

    def __init__(self, pieces, shape):
        def join(parts):
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        self.labels = torch.from_numpy(join([b.labels[i:j] for b, i, j in pieces]))
        self.numbers = torch.from_numpy(join([b.numbers[i:j] for b, i, j in pieces]))
        self.rows = rows = len(self.labels)
        singles = np.concatenate([b.ids[:, i:j] for b, i, j in pieces], axis=1).reshape(-1)
        if not shape.lists:
            self.ids = torch.from_numpy(singles)
            self.offsets = None  # One id a bag.
            return
        parts, lengths = [singles], []
        for slot in range(len(shape.lists)):
            for b, i, j in pieces:
                offsets, values = b.lists[slot]
                parts.append(values[offsets[i]:offsets[j]])
                lengths.append(np.diff(offsets[i:j + 1]))
        self.ids = torch.from_numpy(np.concatenate(parts))
        offsets = np.empty(len(shape.slots) * rows + 1, np.int64)
        offsets[:len(singles) + 1] = np.arange(len(singles) + 1)
        np.cumsum(np.concatenate(lengths), out=offsets[len(singles) + 1:])
        offsets[len(singles) + 1:] += len(singles)
        self.offsets = torch.from_numpy(offsets)


def batches_of(root, shape, batch_rows, rows_max, to_the_last):
    """Batches in the order of the files; `to_the_last`: with the rows that do not fill one."""
    files = sorted(glob.glob(os.path.join(root, "**", "*.parquet"), recursive=True))
    if not files:
        raise SystemExit(f"{root}: no Parquet files; write them with starling generate")
    pieces, have, given = [], 0, 0
    for path in files:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            block = Block(file.read_row_group(group, columns=shape.columns, use_threads=False),
                          shape)
            at = 0
            while at < block.n:
                take = min(batch_rows - have, block.n - at)
                pieces.append((block, at, at + take))
                at, have = at + take, have + take
                if have < batch_rows:
                    break
                yield Batch(pieces, shape)
                given += have
                pieces, have = [], 0
                if rows_max and given + batch_rows > rows_max:
                    return
    if to_the_last and pieces:
        yield Batch(pieces, shape)


class Reader:
    """Iterates over batches that a thread makes ahead; `prepare` runs on that thread too."""

    AHEAD = 8

    def __init__(self, batches, prepare=lambda batch: batch):
        self.queue = queue.Queue(self.AHEAD)
        self.thread = threading.Thread(target=self.run, daemon=True, args=(batches, prepare))
        self.thread.start()

    def run(self, batches, prepare):
        torch.set_num_threads(1)  # Of this thread alone.
        try:
            for batch in batches:
                self.queue.put(prepare(batch))
            self.queue.put(None)
        except BaseException as error:  # The trainer raises it.
            self.queue.put(error)

    def __iter__(self):
        while (batch := self.queue.get()) is not None:
            if isinstance(batch, BaseException):
                raise batch
            yield batch
