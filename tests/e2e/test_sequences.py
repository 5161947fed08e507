"""Sequences read position by position: train, export, predict and serve a DIN; one row, one score."""

import json

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness import ROOT, run, run_json

CONFIG = """
name: test
data: {{train: "{data}/train", eval: "{data}/eval", label: click, batch: 512{more}}}
features:
  - {{id: [item, category], dim: 8}}
  - {{sequence: {{ids: [seen_item, seen_category], vocabularies: [item, category]}}, max_length: 12, dim: 8{pooling}}}
model: {model}
optimizer: {{sparse: {{adam: {{lr: 0.01}}}}, dense: {{adam: {{lr: 0.01}}}}}}
train: {{dir: "{run}", seed: 7, epochs: {epochs}, checkpoint: {{every: 0s}}}}
"""
DIN = ("{din: {attention: [{sequence: [seen_item, seen_category], target: [item, category]}], "
       "attention_hidden: [16], hidden: [16]}}")
DNN = "{dnn: {hidden: [32, 16]}}"
INPUTS = ["item", "category", "seen_item", "seen_category"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("sequences") / "data"
    run("generate", "--out", out, "--rows", 60000, "--eval_rows", 10000, "--days", 2, "--sequence", 12, "--impressions", 4)
    return out


def config(tmp, data, model, pooling="", more="", epochs=1, text=CONFIG):
    tmp.mkdir(exist_ok=True)
    (tmp / "job.yaml").write_text(
        text.format(data=data, run=tmp / "run", model=model, pooling=pooling, more=more, epochs=epochs))
    return tmp / "job.yaml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory, data):
    tmp = tmp_path_factory.mktemp("din")
    job = config(tmp, data, DIN)
    result = run_json("train", "--config", job)
    run("export", "--config", job, "--out", tmp / "bundle", "--onnx", tmp / "model.onnx")
    assert result["samples"] == 60000
    return tmp


def predict(tmp, table, name):
    pq.write_table(table, tmp / f"{name}.parquet")
    run("predict", "--bundle", tmp / "bundle", "--data", tmp / f"{name}.parquet", "--out", tmp / f"{name}.scores.parquet")
    return pq.read_table(tmp / f"{name}.scores.parquet").column("probability").to_numpy()


def test_the_onnx_model_reads_events_and_their_lengths(trained):
    session = onnxruntime.InferenceSession(str(trained / "model.onnx"), providers=["CPUExecutionProvider"])
    shapes = {i.name: i.shape[1:] for i in session.get_inputs()}
    assert shapes.pop("attention.0.events") == ["attention.0.events.T", 16]
    assert shapes == {"embedding": [16], "attention.0.events.lengths": []}
    scores = session.run(None, {
        "embedding": np.zeros((2, 16), np.float32), "attention.0.events": np.ones((2, 3, 16), np.float32),
        "attention.0.events.lengths": np.array([0, 2])})[0]
    assert scores.shape == (2, 1) and scores[0] != scores[1]


def tensor(table, name):
    column = table.column(name)
    shape = [len(column), -1] if pa.types.is_list(column.type) else [len(column)]
    return {"name": name, "shape": shape, "datatype": "INT64", "data": column.to_pylist()}


def test_din_finds_what_a_pooled_sequence_hides(data, tmp_path):
    """Categories alone: so few rows teach nothing of 2000 items."""
    text = CONFIG.replace("seen_item, ", "").replace("item, ", "").replace("batch: 512", "batch: 256")
    text = text.replace("[category], dim: 8}}\n", "[category], dim: 8, table: {{init: 0.3}}}}\n")
    din = DIN.replace("seen_item, ", "").replace("item, ", "")
    found = run_json("train", "--config", config(tmp_path / "din", data, din, epochs=2, text=text))
    pooled = run_json("train", "--config", config(tmp_path / "dnn", data, DNN, pooling=", pooling: mean", epochs=2, text=text))
    assert found["auc"] > pooled["auc"] + 0.01, (found["auc"], pooled["auc"])


def test_served_scores_equal_predicted_scores_bit_for_bit(trained, data):
    tmp = trained
    table = pq.ParquetDataset(data / "eval").read().slice(0, 1000).select(INPUTS)
    predicted = predict(tmp, table, "probe")
    assert len(np.unique(predicted)) > 500
    served = []
    with harness.Server(tmp / "bundle", tmp) as server:
        listed = {t["name"]: t["datatype"] for t in json.loads(server.get("/v2/models/test")[1])["inputs"]}
        assert set(listed) == set(INPUTS)
        begin = 0
        for size in (1, 2, 3, 50, 300, 644):
            part = table.slice(begin, size)
            status, reply = server.infer([tensor(part, name) for name in INPUTS])
            assert status == 200, reply
            served += reply["outputs"][0]["data"]
            begin += size
        # A user without a history.
        status, reply = server.infer([tensor(table.slice(0, 2), "item")])
        assert status == 200 and len(reply["outputs"][0]["data"]) == 2
        status, reply = server.infer([tensor(table.slice(0, 1), "seen_item"),
                                      {"name": "seen_category", "shape": [1, -1], "datatype": "INT64", "data": [[1] * 13]}])
        assert status == 400 and "a sequence of" in reply["error"], reply
        assert server.stop() == 0
    assert np.array_equal(np.array(served, np.float32).view(np.uint32), predicted.view(np.uint32))


def test_longer_sequences_around_a_row_change_no_bit_of_its_score(trained, data):
    tmp = trained
    table = pq.ParquetDataset(data / "eval").read().slice(0, 200).select(INPUTS)
    alone = predict(tmp, table, "alone")
    rows = table.to_pylist()
    crowd = []
    for i, row in enumerate(rows):
        crowd += [{**row, "seen_item": list(range(60)), "seen_category": list(range(60))}] * (i % 3) + [row]
    among = predict(tmp, pa.Table.from_pylist(crowd, table.schema), "among")
    at = np.cumsum([i % 3 + 1 for i in range(200)]) - 1
    assert np.array_equal(among[at].view(np.uint32), alone.view(np.uint32))


def test_a_request_of_one_user_trains_as_its_rows_do(data, tmp_path):
    flat = run_json("train", "--config", config(tmp_path / "flat", data, DIN, more=", shuffle: false", epochs=1))
    keyed = run_json("train", "--config", config(
        tmp_path / "keyed", data, DIN, epochs=1,
        more=", shuffle: false, request: request, user: [seen_item, seen_category]"))
    assert keyed["samples"] == flat["samples"] == 60000
    assert keyed["auc"] == pytest.approx(flat["auc"], abs=2e-3)


def test_config_says_what_does_not_fit(data, tmp_path):
    def refused(words, model=DIN, pooling="", old="", new=""):
        path = config(tmp_path, data, model, pooling=pooling)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        out = run("train", "--config", path, code=2)
        assert words in out.stderr, out.stderr
    refused("model dnn reads sequences pooled only", model=DNN)
    refused("`seen_item` is pooled", pooling=", pooling: sum")
    refused("`thing` is not an id feature", old="target: [item", new="target: [thing")
    refused("as many of target as of sequence", old="target: [item, category]", new="target: [item]")
    refused("is read by no entry", old="sequence: [seen_item, seen_category], target: [item, category]",
            new="sequence: seen_item, target: item")
    refused("differs from dim 4", old="category], dim: 8}\n", new="category], dim: 4}\n")
    refused("give max_length", old=", max_length: 12", new="")


@pytest.mark.parametrize("name", ["din", "dien"])
def test_examples_train(name, data, tmp_path):
    job = tmp_path / "job.yaml"
    text = (ROOT / "examples" / f"{name}.yaml").read_text()
    job.write_text(text.replace("data/", f"{data}/").replace("dir: run", f"dir: {tmp_path}/run"))
    assert run_json("train", "--config", job)["auc"] > 0.55
