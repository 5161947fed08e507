"""tools/compare: what it refuses, what it writes, and a short run of it."""

import json
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from harness import BINARY, ROOT

sys.path.insert(0, str(ROOT / "tests" / "bench" / "peers"))
import compare_report  # noqa: E402
import compare_setup  # noqa: E402

PAGE = f"# Benchmarks\n\nbefore\n{compare_report.BEGIN}\nold\n{compare_report.END}\nafter\n"


def compare(*args, code=0):
    done = subprocess.run([sys.executable, ROOT / "tools" / "compare", *map(str, args)],
                          capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, f"{args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(PAGE)
    return tmp_path / "docs"


def runs(speeds, model="deepfm"):
    """{system: [samples/s by repeat]} as noted runs."""
    return [dict(model=model, system=system, repeat=i, samples_per_s=speed, auc=0.81 + i / 1000)
            for system, own in speeds.items() for i, speed in enumerate(own)]


@pytest.mark.parametrize("args,message", [
    (["--models", "deepfm,bert"], '"bert" is none of deepfm, dcnv2, dlrm, pooled'),
    (["--peers", "jax"], '"jax" is none of fbgemm, torchrec, torch'),
    (["--rows", "10"], "a number of at least 60000"),
    (["--rows", "many"], '"many": a number'),
    (["--repeats", "0"], "a number of at least 1"),
    (["--binary", "/nowhere/starling"], "build it with cmake --build --preset release"),
    (["--table", "--docs", "/nowhere"], "no benchmarks.md in /nowhere"),
])
def test_bad_arguments_are_named(args, message):
    assert message in compare(*args, code=2).stderr


def test_a_table_of_no_runs_is_refused(tmp_path, docs):
    done = compare("--table", "--work", tmp_path, "--docs", docs, code=1)
    assert "holds no runs" in done.stderr
    assert (docs / "benchmarks.md").read_text() == PAGE


def test_the_table_and_the_chart_are_of_the_noted_runs(tmp_path, docs):
    # The machine slowed down for the second repeat: the ratios are those of one repeat.
    noted = runs({"starling": [60000, 30000, 66000], "starling-again": [80000, 50000, 66000],
                  "fbgemm": [40000, 20000, 55000]})
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(r) + "\n" for r in noted))
    compare("--table", "--work", tmp_path, "--docs", docs)
    page = (docs / "benchmarks.md").read_text()
    assert page.startswith("# Benchmarks\n\nbefore\n") and page.endswith("\nafter\n")
    assert "old" not in page
    assert "| DeepFM 400×3 | Starling | 60,000 (30,000–66,000; 3) |  |  | 0.81100 (0.81000–0.81200) |" in page
    assert "| Starling, second pass | 66,000 (50,000–80,000; 3) |  |  |  |" in page
    assert "| FBGEMM tables, tuned | 40,000 (20,000–55,000; 3) | 1.50 | 2.00 | 0.81100 (0.81000–0.81200) |" in page
    chart = xml.etree.ElementTree.parse(docs / "compare.svg").getroot()
    words = [t.text for t in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert "60,000" in words and "FBGEMM tables, tuned" in words
    bars = [float(r.get("width")) for r in chart.iter("{http://www.w3.org/2000/svg}rect") if r.get("x")]
    assert bars[2] / bars[0] == pytest.approx(40000 / 60000, abs=0.01)


def test_a_page_without_marks_is_left_alone():
    with pytest.raises(ValueError, match="no <!-- compare: begin -->"):
        compare_report.splice("# Benchmarks\n", runs({"starling": [1]}))


def test_starling_alone_runs_both_shapes(tmp_path, docs):
    done = compare("--quick", "--models", "dlrm,pooled", "--rows", 60000, "--peers", "", "--work", tmp_path, "--docs", docs,
                   "--binary", BINARY)
    noted = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [(r["model"], r["system"]) for r in noted] == [
        (model, system) for model in ["dlrm", "pooled"] for system in ["starling", "starling-again"]]
    for r in noted:
        assert r["rows"] == 60000 and r["samples_per_s"] > 0
        assert r["auc"] > 0.55, r
    assert "| DLRM 512-256-16 / 512-256 | Starling |" in done.stdout
    assert (docs / "benchmarks.md").read_text() == PAGE  # --quick measures too little for docs.


@pytest.mark.skipif(not compare_setup.installed(compare_setup.FOLDER),
                    reason=f"THE PEERS ARE NOT INSTALLED in {compare_setup.FOLDER}: not compared with them")
def test_a_peer_learns_as_much(tmp_path, docs):
    compare("--quick", "--models", "dlrm", "--peers", "fbgemm-stock,torchrec-stock,torch-stock", "--work", tmp_path,
            "--docs", docs, "--binary", BINARY)
    noted = {r["system"]: r for r in map(json.loads, (tmp_path / "runs.jsonl").read_text().splitlines())}
    for system in ["fbgemm-stock", "torchrec-stock", "torch-stock"]:
        assert noted[system]["auc"] == pytest.approx(noted["starling"]["auc"], abs=0.01)
        assert noted[system]["sgemm_gflops"] > 0
        assert noted[system]["eval_rows"] == 200_000  # All that Starling judges, which no batches of 4096 fill.
