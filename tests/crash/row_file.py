"""Reads row files and checkpoints, from docs/formats.md: a restore that shares no code with the binary's."""

import json
import struct

import numpy as np

HEAD = [("id", "<u8"), ("time", "<i8"), ("frequency", "<u4"), ("epoch", "<u4"), ("flags", "<u4")]
TOMBSTONE = 1


def row_type(width, state=0):
    return np.dtype(HEAD + [("weights", "<f4", width)] + ([("state", "<f4", state)] if state else []))


def read_blocks(path, row):
    """The rows of a file, in order; a tombstone's weights and state are zeros."""
    data = path.read_bytes()
    assert data[:8] == b"STARROWS" and data[-8:] == b"STARDONE", path
    version, header = struct.unpack_from("<II", data, 8)
    assert version == 1
    head = np.dtype(HEAD)
    at, parts = 16 + header + 4, []
    while data[at:at + 4] == b"BLCK":
        rows, size = struct.unpack_from("<II", data, at + 4)
        block, at = data[at + 16:at + 16 + size], at + 16 + size
        if size == rows * row.itemsize:
            parts.append(np.frombuffer(block, row, rows))
            continue
        mixed, p = np.zeros(rows, row), 0  # Tombstones are shorter.
        for i in range(rows):
            gone = np.frombuffer(block, head, 1, p)["flags"][0] & TOMBSTONE
            length = head.itemsize if gone else row.itemsize
            mixed[i:i + 1].view(np.uint8)[:length] = np.frombuffer(block, np.uint8, length, p)
            p += length
        assert p == size, f"{path}: rows of another width than {row}"
        parts.append(mixed)
    return np.concatenate(parts) if parts else np.empty(0, row)


def read_rows(path, width):
    """A bundle's table: id, time, frequency, epoch, flags, weights."""
    return read_blocks(path, row_type(width))


def manifest(checkpoint):
    text = (checkpoint / "MANIFEST").read_text()
    return json.loads(text[:text.rindex("crc32c ")])


def restore(checkpoint, table, width, state):
    """A table's rows from a checkpoint and all it rests on, by id."""
    chain = [checkpoint]
    while base := manifest(chain[-1])["info"].get("base"):
        chain.append(checkpoint.parent / base)
    row = row_type(width, state)
    steps = []
    for cut in reversed(chain):
        names = {f["name"] for f in manifest(cut)["files"]}
        for name in sorted(n for n in names if n.startswith(f"table-{table}-") and n.endswith(".rows")):
            steps += [read_blocks(cut / part, row) for part in (name + ".cold", name) if part in names]
    rows = np.concatenate(steps)
    last = len(rows) - 1 - np.unique(rows["id"][::-1], return_index=True)[1]  # The last word on an id counts.
    rows = rows[last]
    return rows[rows["flags"] & TOMBSTONE == 0]
