"""The house style, as far as a program can judge it."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["base", "dense_net", "embedding_store", "ps", "sample_io", "scheduler", "serving", "tools"]
SOURCES = [p for f in FOLDERS for p in sorted((ROOT / f).rglob("*")) if p.suffix in {".h", ".cc"}]


def test_sources_are_formatted():
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, SOURCES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_files_stay_small():
    assert [str(p) for p in SOURCES if p.read_text().count("\n") > 450] == []


def test_every_header_opens_with_prose():
    assert [str(p) for p in SOURCES if p.suffix == ".h" and not p.read_text().startswith("// ")] == []
