"""Promise 5 and the tiers: threads, queues and memory budgets change the speed, never the model."""

import json

import pyarrow.parquet as pq
import pytest

from harness import run, run_json, write_config


def scores(tmp_path, data, name, *sets):
    config = write_config(tmp_path / f"{name}.yaml", data, tmp_path / name)
    flags = [word for s in sets for word in ("--set", s)]
    run("train", "--config", config, *flags)
    run("export", "--config", config, "--out", tmp_path / f"{name}-bundle", *flags)
    run("predict", "--bundle", tmp_path / f"{name}-bundle", "--data", data / "eval", "--out", tmp_path / f"{name}.parquet")
    return pq.read_table(tmp_path / f"{name}.parquet").column("probability").to_numpy().tobytes()


def test_threads_and_memory_budget_do_not_change_one_bit(tmp_path, data):
    reference = scores(tmp_path, data, "one", "train.threads=1")
    assert scores(tmp_path, data, "four", "train.threads=4") == reference
    # About a tenth of the rows fit: the rest lives in RocksDB.
    assert scores(tmp_path, data, "cold", "features[0].table.memory=6MiB") == reference
    assert scores(tmp_path, data, "memory", "features[0].table.tier=memory") == reference
    assert scores(tmp_path, data, "other", "train.seed=8") != reference


def test_a_memory_table_that_is_full_says_what_to_raise(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    done = run("train", "--config", config, "--set", "features[0].table.tier=memory",
               "--set", "features[0].table.memory=1MiB", code=138)
    assert "memory" in done.stderr and "dim8" in done.stderr


def test_early_stopping_leaves_the_best_model(tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run")
    flags = ("--set", "train.epochs=12", "--set", "train.early_stop={metric: auc, patience: 2}",
             "--set", "train.schedule={warmup_steps: 100, plateau: {factor: 0.5}}", "--set", "train.clip_norm=5",
             "--set", "model.deepfm={hidden: [32], dropout: 0.1, batch_norm: true}", "--set", "optimizer.dense.l2=1e-5",
             "--set", "optimizer.sparse.adagrad.lr=0.2")
    result = run_json("train", "--config", config, *flags)
    lines = [json.loads(l) for l in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    evals = [l["eval"]["auc"] for l in lines if "eval" in l]
    assert 3 <= len(evals) < 12
    assert max(evals) > evals[-1]
    assert result["auc"] == pytest.approx(max(evals), abs=1e-6)
    assert run_json("eval", "--config", config, *flags)["auc"] == pytest.approx(max(evals), abs=1e-6)
    scales = [l["lr_scale"] for l in lines if "lr_scale" in l]
    assert scales[0] == pytest.approx(0.2) and 1.0 in scales and scales[-1] == 0.5  # Warm-up, then a plateau.
    # Nothing is left to do.
    again = run_json("train", "--config", config, "--resume", *flags)
    assert again["steps"] == 0 and again["auc"] == result["auc"]


@pytest.mark.parametrize("model", ["lr", "fm", "wide_deep", "deepfm", "dcnv2"])
@pytest.mark.parametrize("optimizer", ["sgd: {lr: 0.05}", "adagrad: {lr: 0.05}", "adam: {lr: 0.005}", "ftrl: {lr: 0.05}",
                                       "rowwise_adagrad: {lr: 0.05}", "adamw: {lr: 0.005}"])
def test_every_model_learns_with_every_optimiser(model, optimizer, tmp_path, data):
    config = write_config(tmp_path / "job.yaml", data, tmp_path / "run", **{
        "deepfm: {hidden: [32, 16]}": f"{model}: {{}}" if model in ("lr", "fm") else f"{model}: {{hidden: [16]}}",
        "dim: 8, ": "" if model == "lr" else "dim: 4, ",
        "sparse: {adagrad: {lr: 0.05}}, dense: {adam: {lr: 0.002}}": f"sparse: {{{optimizer}}}, dense: {{{optimizer}}}"})
    result = run_json("train", "--config", config, "--set", "data.batch=256", "--set", "train.epochs=2")
    assert result["auc"] > 0.6, result
