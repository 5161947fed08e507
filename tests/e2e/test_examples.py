"""Every example of a model without sequences trains on generated data."""

import pytest

from harness import ROOT, generated, run_json

MODELS = ["lr", "fm", "fwfm", "dnn", "wide_deep", "deepfm", "nfm", "dcn", "dcnv2", "dcnv2_low_rank",
          "xdeepfm", "dlrm", "pnn", "autoint", "finalmlp", "custom"]


@pytest.mark.parametrize("model", MODELS)
def test_example_learns(model, tmp_path):
    (tmp_path / "data").symlink_to(generated())
    result = run_json("train", "--config", ROOT / "examples" / f"{model}.yaml", cwd=tmp_path)
    assert result["auc"] > 0.65, result
    evaluated = run_json("eval", "--config", ROOT / "examples" / f"{model}.yaml", cwd=tmp_path)
    assert evaluated["auc"] == result["auc"]


@pytest.mark.parametrize("model", ["esmm", "mmoe", "ple"])
def test_example_of_two_tasks_learns_both(model, tmp_path):
    (tmp_path / "data").symlink_to(generated(more=["--conversions"]))
    # Some 3,000 of the rows have a conversion: several passes, in small batches.
    result = run_json("train", "--config", ROOT / "examples" / f"{model}.yaml", "--set", "data.batch=256",
                      "--set", "train.epochs=3", cwd=tmp_path)
    aucs = {name: task["auc"] for name, task in result["tasks"].items()}
    assert len(aucs) >= 2 and min(aucs.values()) > 0.6, result
