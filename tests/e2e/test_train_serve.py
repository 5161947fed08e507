"""The main road: train, evaluate, export, predict, serve; and what a person sees on it."""

import json
import re
import urllib.request

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness import run, run_json, write_config

FEATURES = [f"C{i}" for i in range(1, 27)] + [f"I{i}" for i in range(1, 14)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    tmp = tmp_path_factory.mktemp("train")
    config = write_config(tmp / "job.yaml", data, tmp / "run")
    result = run_json("train", "--config", config)
    run("export", "--config", config, "--out", tmp / "bundle")
    return {"tmp": tmp, "config": config, "result": result, "data": data}


def test_training_beats_chance_and_eval_agrees(trained):
    result = trained["result"]
    assert result["auc"] > 0.6
    assert result["samples"] == 60000
    assert result["samples_per_s"] > 0
    again = run_json("eval", "--config", trained["config"])
    for key in ("auc", "gauc", "logloss", "ne", "calibration"):
        assert again[key] == pytest.approx(result[key], abs=1e-6)
    assert again["samples"] == 20000


def test_metrics_jsonl_and_tensorboard_tell_the_same(trained):
    lines = [json.loads(l) for l in (trained["tmp"] / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [l for l in lines if "loss" in l]
    evals = [l for l in lines if "eval" in l]
    assert steps and evals
    assert evals[-1]["eval"]["auc"] == pytest.approx(trained["result"]["auc"], abs=1e-6)

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(trained["tmp"] / "run" / "tensorboard"))
    events.Reload()
    assert {"train/loss", "train/auc", "eval/auc", "eval/logloss"} <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("train/loss")] == [l["step"] for l in steps]
    for event, line in zip(events.Scalars("train/loss"), steps):
        assert event.value == pytest.approx(line["loss"], abs=1e-5)
    assert events.Scalars("eval/auc")[-1].value == pytest.approx(trained["result"]["auc"], abs=1e-5)


def probe_rows(data):
    """10,000 rows of the held-out set, ids never seen and nulls among them."""
    table = pq.ParquetDataset(data / "eval").read().slice(0, 10000)
    columns = {name: table.column(name).to_pylist() for name in FEATURES}
    rng = np.random.default_rng(5)
    for name in FEATURES:
        for row in rng.integers(0, 10000, 300):
            columns[name][row] = None
    for name in FEATURES[:26]:
        for row in rng.integers(0, 10000, 300):
            columns[name][row] = int(rng.integers(1 << 60, 1 << 62))
    return pa.table({n: pa.array(v, table.schema.field(n).type) for n, v in columns.items()})


def test_served_scores_equal_predicted_scores_bit_for_bit(trained):
    tmp = trained["tmp"]
    table = probe_rows(trained["data"])
    pq.write_table(table, tmp / "probe.parquet")
    run("predict", "--bundle", tmp / "bundle", "--data", tmp / "probe.parquet", "--out", tmp / "scores.parquet")
    predicted = pq.read_table(tmp / "scores.parquet").column("probability").to_numpy()
    assert predicted.dtype == np.float32 and len(predicted) == 10000
    assert len(np.unique(predicted)) > 9000
    served = []
    with harness.Server(tmp / "bundle", tmp) as server:
        begin = 0
        for size in [1, 2, 3, 17, 255, 256, 257, 1000] + [1873] * 5:  # Batches of many sizes.
            end = min(10000, begin + size)
            status, reply = server.infer(harness.tensors(table, FEATURES, begin, end))
            assert status == 200, reply
            served += reply["outputs"][0]["data"]
            begin = end
        while begin < 10000:
            end = min(10000, begin + 2000)
            status, reply = server.infer(harness.tensors(table, FEATURES, begin, end))
            assert status == 200, reply
            served += reply["outputs"][0]["data"]
            begin = end
        assert server.stop() == 0
    assert np.array_equal(np.array(served, np.float32).view(np.uint32), predicted.view(np.uint32))


def test_server_describes_itself_and_counts(trained):
    with harness.Server(trained["tmp"] / "bundle", trained["tmp"]) as server:
        status, text = server.get("/v2/models/test")
        assert status == 200
        assert {t["name"] for t in json.loads(text)["inputs"]} == set(FEATURES)
        status, reply = server.infer([{"name": "C1", "shape": [2], "datatype": "INT64", "data": [1, None]}])
        assert status == 200 and len(reply["outputs"][0]["data"]) == 2
        status, reply = server.infer([{"name": "C99", "shape": [1], "datatype": "INT64", "data": [1]}])
        assert status == 400 and "C99" in reply["error"]
        assert server.get("/v2/models/other")[0] == 404
        status, text = server.get("/metrics")
        assert status == 200 and "starling_serv" in text


def test_prometheus_page_while_training(trained, tmp_path):
    port = harness.free_port()
    config = write_config(tmp_path / "job.yaml", trained["data"], tmp_path / "run")
    process = harness.start("train", "--config", config, "--set", f"train.metrics_port={port}", "--set", "train.epochs=50")
    try:
        def page():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as r:
                    text = r.read().decode()
                match = re.search(r"^starling_train_steps_total (\d+)", text, re.M)
                return text if match and int(match.group(1)) > 25 else None
            except OSError:
                return None
        text = harness.wait_until(page, what="metrics page")
        assert "starling_train_loss" in text and "starling_train_samples_total" in text
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 143


def test_inspect_describes_data_checkpoint_and_bundle(trained):
    tmp = trained["tmp"]
    assert "C26" in run("inspect", trained["data"] / "train").stdout
    assert "80" not in run("inspect", tmp / "run" / "ckpt", "--verify").stderr
    assert "step" in run("inspect", tmp / "run" / "ckpt").stdout
    assert "test" in run("inspect", tmp / "bundle", "--verify").stdout
    dense = tmp / "bundle" / "dense.bin"
    good = dense.read_bytes()
    dense.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    try:
        assert "dense.bin" in run("inspect", tmp / "bundle", "--verify", code=5).stderr
        assert "dense.bin" in run("serve", "--bundle", tmp / "bundle", "--port", 0, code=5).stderr
    finally:
        dense.write_bytes(good)


def test_lr_falls_short_of_the_truth_and_a_deep_model_of_lr_does_not(trained, tmp_path):
    """The planted crosses and curves: LR cannot reach the best AUC."""
    truth = json.loads((trained["data"] / "TRUTH.json").read_text())
    best = truth["eval"]["best_auc"]
    config = write_config(tmp_path / "lr.yaml", trained["data"], tmp_path / "run",
                          **{"model: {deepfm: {hidden: [32, 16]}}": "model: {lr: {}}", "dim: 8, ": ""})
    lr = run_json("train", "--config", config, "--set", "train.epochs=3")
    assert best - lr["auc"] >= 0.02
