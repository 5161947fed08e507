"""Includes run one way, and heavy headers stay out of ours (docs/architecture.md)."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = {
    "base": set(),
    "embedding_store": {"base"},
    "sample_io": {"base"},
    "dense_net": {"base"},  # and sample_io/batch.h alone
    "ps": {"base", "embedding_store"},
    "serving": {"base", "dense_net", "embedding_store", "sample_io"},
    "scheduler": {"base", "dense_net", "embedding_store", "sample_io", "ps"},
    "tools": {"base", "dense_net", "embedding_store", "sample_io", "ps", "scheduler", "serving"},
}
HEAVY = ("arrow/", "parquet/", "rocksdb/", "grpcpp/", "boost/", "Eigen/", "httplib", "nlohmann/", "yaml-cpp/", "prometheus/", "onnx/")
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]', re.M)
IMPORT = re.compile(r'^import\s+"([^"]+)"', re.M)


def sources(folder, suffixes):
    return [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in suffixes]


def back_edges(allowed):
    found = []
    for folder, below in allowed.items():
        for path in sources(folder, {".h", ".cc", ".proto", ".inc"}):
            text = path.read_text()
            for name in INCLUDE.findall(text) + IMPORT.findall(text):
                to = name.split("/")[0]
                if to not in ALLOWED or to == folder or to in below:
                    continue
                if folder == "dense_net" and name == "sample_io/batch.h":
                    continue
                found.append(f"{path.relative_to(ROOT)} includes {name}")
    return found


def test_includes_run_one_way():
    assert back_edges(ALLOWED) == []


def test_the_check_itself_sees_a_back_edge():
    narrowed = dict(ALLOWED, ps={"base"})
    assert any("embedding_store/" in edge for edge in back_edges(narrowed))


def test_heavy_headers_are_included_by_source_files_only():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ALLOWED
        for path in sources(folder, {".h"})
        for name in INCLUDE.findall(path.read_text())
        if name.startswith(HEAVY)
    ]
    assert found == []


def test_ops_reach_kernels_through_their_device_alone():
    """What an op, a loss or a model calls is in the headers of the Device seam; the tables of this
    machine's processor (dense_net/dispatch.h) are for the device, its tests and benchmarks."""
    may = {"device.cc", "dispatch.cc", "gemm_double.cc"}
    found = [
        str(path.relative_to(ROOT))
        for path in sources("dense_net", {".h", ".cc"})
        if "dense_net/dispatch.h" in INCLUDE.findall(path.read_text())
        and path.name not in may
        and not path.name.endswith("_test.cc")
    ]
    assert found == []
    declared = [
        str(path.relative_to(ROOT))
        for path in sources("dense_net", {".h"})
        if re.search(r"\bCpuKernelSets\(\);", path.read_text())
    ]
    assert declared == ["dense_net/dispatch.h"]
