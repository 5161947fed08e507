"""The job of `starling bench read` by pyarrow and NumPy, on one thread: reads
the columns, takes log1p of the numbers, and finds each batch's unique ids with
the place of every occurrence. Prints rows, unique ids summed over batches and seconds.

usage: read_peer.py DIR BATCH_ROWS
"""
import glob
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NUMBERS = [f"I{i}" for i in range(1, 14)]
IDS = [f"C{i}" for i in range(1, 27)]


def numbers_of(batch):
    """Dense (rows, 13), float32; a null counts as 0."""
    dense = np.empty((batch.num_rows, len(NUMBERS)), np.float32)
    for i, name in enumerate(NUMBERS):
        dense[:, i] = np.nan_to_num(batch.column(name).to_numpy(zero_copy_only=False))
    return np.log1p(dense, out=dense)


def ids_of(batch):
    """The unique ids of all columns, each with its count, and every occurrence's place.

    An id is told from those of other columns by its top bits, which is cheaper than a hash.
    """
    parts, entries = [], []
    for i, name in enumerate(IDS):
        column = batch.column(name)
        values = column.drop_null().to_numpy()
        parts.append(values + (i << 48))
        entries.append(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
                       if column.null_count else np.arange(batch.num_rows))
    occurrences = np.concatenate(parts)
    unique, inverse, counts = np.unique(occurrences, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")  # The occurrences of each id, for gradients.
    return unique, inverse, counts, order, entries


def main():
    pa.set_cpu_count(1)
    root, batch_rows = sys.argv[1], int(sys.argv[2])
    files = sorted(glob.glob(root + "/**/*.parquet", recursive=True))
    start, rows, unique_ids = time.perf_counter(), 0, 0
    for path in files:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["click"] + NUMBERS + IDS,
                                        use_threads=False)
            for batch in table.to_batches(max_chunksize=batch_rows):
                labels = batch.column("click").to_numpy().astype(np.float32)
                dense = numbers_of(batch)
                unique = ids_of(batch)[0]
                assert len(labels) == len(dense)
                rows += batch.num_rows
                unique_ids += len(unique)
    print(rows, unique_ids, time.perf_counter() - start)


main()
