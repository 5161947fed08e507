"""Fits the frequency laws of `starling generate --shape criteo` to a Criteo log.

usage: fit_shares.py LOG.tsv.gz

For each of the 26 id fields: the mean share of unique ids in batches of 4,096 rows of the log
(an empty value is an id of its own), and the exponent at which the generator's law, Zipf's in its
continuous form over the field's published cardinality, is expected to give the same. Prints
both, a line a field, as --laws takes them.
"""
import gzip
import math
import sys

import numpy as np

BATCH = 4096
CARDINALITIES = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
                 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
EXACT = 20_000  # Ranks taken one by one; those beyond in bins, whose ranks are about as frequent.


def shares_of(path):
    with gzip.open(path, "rt") as log:
        rows = [line.rstrip("\n").split("\t") for line in log]
    starts = range(0, len(rows) - BATCH + 1, 1024)
    if not starts:
        sys.exit(f"{path}: fewer than {BATCH} rows")
    return [np.mean([len({row[14 + f] for row in rows[s:s + BATCH]}) for s in starts]) / BATCH
            for f in range(26)]


def expected_unique(exponent, cardinality):
    """Of BATCH draws of rank floor(x), P(x > t) falling as t^(1 - exponent) from 1 to n + 1."""
    exact = min(EXACT, cardinality)
    edges = np.arange(1, exact + 2, dtype=np.float64)
    if cardinality > exact:
        bins = int(math.log(cardinality / exact) * 200) + 2
        edges = np.concatenate([edges, np.geomspace(exact + 1, cardinality + 1, bins)[1:]])
    power = edges ** (1 - exponent)
    mass = (power[:-1] - power[1:]) / (1 - power[-1])
    ranks = np.diff(edges)
    return float((ranks * -np.expm1(BATCH * np.log1p(-np.minimum(mass / ranks, 1 - 1e-12)))).sum())


def fit(share, cardinality):
    """A field of few ids shows them all, whatever the law: the steepest that still does."""
    target = min(share * BATCH, cardinality - 0.01)
    low, high = 0.02, 8.0
    for _ in range(60):
        middle = (low + high) / 2
        if abs(middle - 1) < 1e-9:
            middle += 1e-6
        if expected_unique(middle, cardinality) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def laws_of(path):
    """The lines that `generate --laws` takes."""
    shares = shares_of(path)
    lines = [f"{share:.5f} {fit(share, n):.4f}\n" for share, n in zip(shares, CARDINALITIES)]
    print(f"{path}: mean share of unique ids {np.mean(shares):.4f}", file=sys.stderr)
    return "".join(lines)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(laws_of(sys.argv[1]), end="")


if __name__ == "__main__":
    main()
