"""What every row must hold after so many steps, from the Parquet files alone.

Written from the documents (docs/formats.md, docs/data.md), not from the code: a
batch is the next BATCH rows of a file; an id is XXH64(value, XXH64(column, 42));
`count` adds AMOUNT to every weight of an id's row once a batch.
"""

import glob

import numpy as np
import pyarrow.parquet as pq

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def _rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def xxh64(data, seed):
    """XXH64 of fewer than 32 bytes."""
    assert len(data) < 32
    h = (seed + P5 + len(data)) & MASK
    while len(data) >= 8:
        h ^= _rotl(int.from_bytes(data[:8], "little") * P2 & MASK, 31) * P1 & MASK
        h = (_rotl(h, 27) * P1 + P4) & MASK
        data = data[8:]
    if len(data) >= 4:
        h ^= int.from_bytes(data[:4], "little") * P1 & MASK
        h = (_rotl(h, 23) * P2 + P3) & MASK
        data = data[4:]
    for byte in data:
        h ^= byte * P5 & MASK
        h = _rotl(h, 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def id_of(column, value):
    return xxh64(int(value).to_bytes(8, "little", signed=True), xxh64(column.encode(), 42))


ROWS = np.dtype([("id", "<u8"), ("steps", "<i8"), ("frequency", "<i8"), ("time", "<i8"), ("may_be_gone", "?")])


class Row:
    __slots__ = ("steps", "frequency", "time")

    def __init__(self):
        self.steps = self.frequency = self.time = 0


class Table:
    """One table: admission by exact count, ageing by event time."""

    def __init__(self, admit, ttl):
        self.admit, self.ttl = admit, ttl
        self.rows, self.sights = {}, {}

    def step(self, values, counts, time):
        for value, count in zip(values, counts):
            row = self.rows.get(value)
            if row is None:
                seen = self.sights.get(value, 0) + count
                if seen < self.admit:
                    self.sights[value] = seen
                    continue
                self.sights.pop(value, None)
                row = self.rows[value] = Row()
            elif self.ttl and time - row.time > self.ttl:  # Expired: it begins anew.
                row.steps = row.frequency = 0
            row.steps += 1
            row.frequency += count
            row.time = max(row.time, time)


class Truth:
    """Replays the files; steps may be asked for in any order."""

    def __init__(self, data, batch, tables):
        self.batch, self.options = batch, tables
        self.ids = {name: {} for name in tables}
        self.splits = []  # Of batches: one for each row group.
        for path in sorted(glob.glob(f"{data}/*.parquet")):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                times = table.column("ts").to_numpy()
                columns = {name: table.column(name).to_numpy() for name in tables}
                self.splits.append([self._batch(times, columns, begin) for begin in range(0, len(times), batch)])
        self.batches = [b for split in self.splits for b in split]
        self._restart()

    def _batch(self, times, columns, begin):
        piece = slice(begin, begin + self.batch)
        assert times[piece].min() == times[piece].max(), "one event time a batch"
        return int(times[begin]), {name: tuple(x.tolist() for x in np.unique(values[piece], return_counts=True))
                                   for name, values in columns.items()}

    def _restart(self):
        self.tables = {name: Table(**options) for name, options in self.options.items()}
        self.done = 0

    def _learn(self, batches):
        for time, pieces in batches:
            for name, (values, counts) in pieces.items():
                self.tables[name].step(values, counts, time)

    def at(self, step):
        """By table the rows after `step` steps of one worker, by id: id, steps, frequency, time, whether it may be gone."""
        if step < self.done:
            self._restart()
        self._learn(self.batches[self.done:step])
        self.done = step
        return self._rows(self.batches[step - 1][0] if step else 0)

    def of(self, positions):
        """The same for several workers, each at its (split, batch). REQUIRES: the order of batches does not matter."""
        self._restart()
        for worker, (split, batch) in enumerate(positions):
            own = range(worker, len(self.splits), len(positions))
            for s in own:
                self._learn(self.splits[s] if s < split else self.splits[s][:batch] if s == split else [])
        self.done = len(self.batches) + 1  # No number of steps.
        return self._rows(0)

    def _rows(self, now):
        out = {}
        for name, table in self.tables.items():
            known = self.ids[name]
            for value in table.rows.keys() - known.keys():
                known[value] = id_of(name, value)
            rows = [(known[value], row.steps, row.frequency, row.time, bool(table.ttl) and now - row.time > table.ttl)
                    for value, row in table.rows.items()]
            out[name] = np.array(rows, ROWS)
            out[name].sort(order="id")
        return out
