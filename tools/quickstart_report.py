"""The closing table of tools/quickstart: asks the live server and `predict` for the same row."""

import json
import pathlib
import struct
import subprocess
import sys
import urllib.request

import pyarrow.parquet as pq

FEATURES = [f"C{i}" for i in range(1, 27)] + [f"I{i}" for i in range(1, 14)]


def served_score(port, row):
    inputs = [
        {"name": n, "shape": [1], "datatype": "INT64" if n[0] == "C" else "FP64", "data": row.column(n).to_pylist()}
        for n in FEATURES
    ]
    body = json.dumps({"inputs": inputs}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v2/models/quickstart/infer", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())["outputs"][0]["data"][0]


def predicted_score(starling, row):
    pq.write_table(row, "row.parquet")
    subprocess.run([starling, "predict", "--bundle", "bundle", "--data", "row.parquet", "--out", "score.parquet"], check=True)
    return pq.read_table("score.parquet").column("probability")[0].as_py()


def as_float32(score):
    """What was printed in more or fewer digits, as the float it stands for."""
    return struct.unpack("<f", struct.pack("<f", score))[0]


def main(starling, port):
    first = sorted(pathlib.Path("data/eval").rglob("*.parquet"))[0]
    row = pq.ParquetFile(first).read_row_group(0).slice(0, 1).select(FEATURES)
    served, predicted = as_float32(served_score(port, row)), as_float32(predicted_score(starling, row))
    train = json.loads(pathlib.Path("train.json").read_text().splitlines()[-1])
    best = json.loads(pathlib.Path("data/TRUTH.json").read_text())["eval"]
    reached = (train["auc"] - 0.5) / (best["best_auc"] - 0.5)
    print()
    for name, value in [
        ("rows trained", f"{train['samples']:,}"),
        ("samples/s", f"{train['samples_per_s']:,.0f}"),
        ("AUC", f"{train['auc']:.4f}   best reachable {best['best_auc']:.4f}   {reached:.1%} of the way from 0.5"),
        ("log loss", f"{train['logloss']:.4f}   best reachable {best['best_logloss']:.4f}"),
        ("bundle", pathlib.Path(json.loads(pathlib.Path("export.json").read_text())["bundle"]).resolve()),
        ("score from the live server", f"{served:.9g}"),
        ("score from predict", f"{predicted:.9g}   {'equal, bit for bit' if served == predicted else 'DIFFERENT'}"),
    ]:
        print(f"  {name:28}{value}")
    if served != predicted or reached < 0.95:
        sys.exit("quickstart: the result is not what it should be")


main(sys.argv[1], sys.argv[2])
