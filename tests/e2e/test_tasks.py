"""Jobs of several tasks: train, evaluate, export, predict and serve every output."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json

FEATURES = [f"C{i}" for i in range(1, 27)] + [f"I{i}" for i in range(1, 14)]
ESMM = """
name: test
data: {{train: "{data}/train", eval: "{data}/eval", label: [click, conversion], event_time: ts, group: user, batch: 1024}}
features:
  - {{id: [C1..C26], dim: 8, table: {{memory: 256MiB}}}}
  - {{raw: [I1..I13], norm: log1p}}
model: {{esmm: {{hidden: [32, 16]}}}}
tasks: [{{name: ctr, label: click}}, {{name: ctcvr, label: conversion}}]
optimizer: {{sparse: {{adagrad: {{lr: 0.05}}}}, dense: {{adam: {{lr: 0.002}}}}}}
train: {{dir: "{run}", epochs: 1, seed: 7, checkpoint: {{every: 0s}}}}
"""


@pytest.fixture(scope="module")
def converted(tmp_path_factory, data):
    """The generated data with a second label: a click leads to a conversion more often for some values of C14."""
    out = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(11)
    for path in sorted(data.glob("*/ds=*/*.parquet")):
        table = pq.read_table(path, partitioning=None)
        likely = np.where(table["C14"].to_numpy() % 2 == 0, 0.6, 0.2)
        conversion = (table["click"].to_numpy() == 1) & (rng.random(len(likely)) < likely)
        target = out / path.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.append_column("conversion", pa.array(conversion.astype(np.int32))), target)
    return out


@pytest.fixture(scope="module")
def trained(tmp_path_factory, converted):
    tmp = tmp_path_factory.mktemp("tasks")
    config = harness.write_config(tmp / "job.yaml", converted, tmp / "run", ESMM)
    result = run_json("train", "--config", config)
    run("export", "--config", config, "--out", tmp / "bundle")
    return {"tmp": tmp, "config": config, "result": result, "data": converted}


def test_every_output_has_metrics_of_its_own(trained):
    result = trained["result"]
    tasks = result["tasks"]
    assert list(tasks) == ["ctr", "ctcvr", "cvr"]
    assert result["auc"] == tasks["ctr"]["auc"] and result["logloss"] == tasks["ctr"]["logloss"]
    for name in tasks:
        assert tasks[name]["auc"] > 0.55, name
    assert tasks["ctr"]["samples"] == tasks["ctcvr"]["samples"] == 20000
    clicks = int(pq.ParquetDataset(trained["data"] / "eval").read()["click"].to_numpy().sum())
    assert tasks["cvr"]["samples"] == clicks
    again = run_json("eval", "--config", trained["config"])
    for name in tasks:
        for key in ("auc", "gauc", "logloss", "calibration"):
            assert again["tasks"][name][key] == pytest.approx(tasks[name][key], abs=1e-6)
    lines = [json.loads(l) for l in (trained["tmp"] / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [l for l in lines if "eval" in l][-1]["eval"]["tasks"]["cvr"]["auc"] == pytest.approx(tasks["cvr"]["auc"], abs=1e-6)


def test_served_outputs_equal_predicted_ones_bit_for_bit(trained):
    tmp = trained["tmp"]
    table = pq.ParquetDataset(trained["data"] / "eval").read().slice(0, 2000)
    pq.write_table(table, tmp / "probe.parquet")
    run("predict", "--bundle", tmp / "bundle", "--data", tmp / "probe.parquet", "--out", tmp / "scores.parquet", "--keep", "click")
    scores = pq.read_table(tmp / "scores.parquet")
    assert scores.column_names == ["row", "click", "ctr", "ctcvr", "cvr"]
    served = {"ctr": [], "ctcvr": [], "cvr": []}
    with harness.Server(tmp / "bundle", tmp) as server:
        outputs = json.loads(server.get("/v2/models/test")[1])["outputs"]
        assert [o["name"] for o in outputs] == list(served)
        for begin, end in [(0, 1), (1, 3), (3, 260), (260, 2000)]:
            status, reply = server.infer(harness.tensors(table, FEATURES, begin, end))
            assert status == 200, reply
            for output in reply["outputs"]:
                served[output["name"]] += output["data"]
        assert server.stop() == 0
    for name, values in served.items():
        predicted = scores[name].to_numpy()
        assert np.array_equal(np.array(values, np.float32).view(np.uint32), predicted.view(np.uint32)), name
    product = scores["ctr"].to_numpy().astype(np.float64) * scores["cvr"].to_numpy()
    assert np.allclose(product, scores["ctcvr"].to_numpy(), rtol=1e-5)


def test_early_stop_follows_the_named_task(converted, tmp_path):
    config = harness.write_config(tmp_path / "job.yaml", converted, tmp_path / "run", ESMM)
    assert 'did you mean "cvr"' in run("train", "--config", config, "--set", "train.early_stop={task: cvrr}", code=2).stderr
    result = run_json("train", "--config", config, "--set", "train.early_stop={task: cvr, metric: logloss, patience: 1}",
                      "--set", "train.epochs=4")
    lines = [json.loads(l)["eval"] for l in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines() if "eval" in l]
    best = min(e["tasks"]["cvr"]["logloss"] for e in lines)
    assert result["tasks"]["cvr"]["logloss"] == pytest.approx(best, abs=1e-6)


def test_a_number_is_learned_with_weights_and_judged_by_rmse(converted, tmp_path):
    text = ESMM.replace("label: [click, conversion]", "label: I2, weight: I7, bad_rows_max: 0.5").replace(
        "tasks: [{{name: ctr, label: click}}, {{name: ctcvr, label: conversion}}]",
        "tasks: [{{name: clicks, loss: {{mse: {{}}}}}}]").replace(
        "esmm: {{hidden: [32, 16]}}", "dnn: {{hidden: [16]}}").replace("[I1..I13]", "[I8..I13]")
    config = harness.write_config(tmp_path / "job.yaml", converted, tmp_path / "run", text)
    result = run_json("train", "--config", config)
    assert result["rmse"] > 0 and result["auc"] is None
    column = pq.ParquetDataset(converted / "eval").read()["I2"].to_numpy()
    assert result["rmse"] < 3 * column.std()


@pytest.mark.parametrize("example", ["esmm", "mmoe", "ple", "dssm"])
def test_examples_train(example, converted, tmp_path):
    config = pathlib.Path(harness.ROOT) / "examples" / f"{example}.yaml"
    result = run_json("train", "--config", config, "--set", f"data.train={converted}/train",
                      "--set", f"data.eval={converted}/eval", "--set", f"train.dir={tmp_path}/run")
    assert result["auc"] > 0.55
