"""Reads a bundle's row files, from docs/formats.md."""

import struct

import numpy as np


def read_rows(path, width):
    """A structured array: id, time, frequency, epoch, flags, weights."""
    data = path.read_bytes()
    assert data[:8] == b"STARROWS" and data[-8:] == b"STARDONE", path
    version, header = struct.unpack_from("<II", data, 8)
    assert version == 1
    row = np.dtype([("id", "<u8"), ("time", "<i8"), ("frequency", "<u4"), ("epoch", "<u4"), ("flags", "<u4"), ("weights", "<f4", width)])
    at, parts = 16 + header + 4, []
    while data[at:at + 4] == b"BLCK":
        rows, size = struct.unpack_from("<II", data, at + 4)
        assert size == rows * row.itemsize, f"{path}: rows of another width than {width}"
        parts.append(np.frombuffer(data, row, rows, at + 16))
        at += 16 + size
    return np.concatenate(parts) if parts else np.empty(0, row)
