"""Damaged and full disks: always noticed, no complete checkpoint harmed."""

import contextlib
import os
import random
import shutil
import struct
import signal
import subprocess
import time

import pytest

from crash_run import CrashRun

BINARY = os.environ["STARLING"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run: a full checkpoint, and increments over it."""
    run = CrashRun(BINARY, tmp_path_factory.mktemp("trained"), 3, every=40)
    text = run.config.read_text()
    run.config.write_text(text.replace("keep: 2, full_every: 4", "keep: 9, full_every: 8"))
    assert not run.train()
    sets = sorted(run.run_dir.glob("ckpt/step-*"))
    assert len(sets) >= 4 and '"base"' in (sets[-1] / "MANIFEST").read_text()
    return run, run.run_dir / "ckpt", [s.name for s in sets]


def export(root, tmp_path):
    out = tmp_path / "bundle"
    shutil.rmtree(out, ignore_errors=True)
    return subprocess.run([BINARY, "export", "--checkpoint", str(root), "--out", str(out)], capture_output=True, text=True, check=False)


def block_borders(path):
    """Offsets at which a row file's parts begin."""
    data = path.read_bytes()
    at = 16 + struct.unpack_from("<I", data, 12)[0] + 4
    out = [0, at]
    while data[at:at + 4] == b"BLCK":
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
        out.append(at)
    return out + [len(data) - 36, len(data) - 1]


def damages(path, rng):
    """(name, function of the bytes) that no reader may take for the file."""
    size = path.stat().st_size
    cuts = {rng.randrange(size)}
    if ".rows" in path.name:
        cuts |= {c for c in block_borders(path) if c < size}
    for cut in sorted(cuts):
        yield f"cut at {cut}", lambda b, cut=cut: b[:cut]
    for _ in range(2):
        at, bit = rng.randrange(size), 1 << rng.randrange(8)
        yield f"bit {bit} of byte {at}", lambda b, at=at, bit=bit: b[:at] + bytes([b[at] ^ bit]) + b[at + 1:]
    yield "a byte more", lambda b: b + b"\0"
    yield "missing", None


@contextlib.contextmanager
def damaged(path, change):
    good = path.read_bytes()
    try:
        if change is None:
            path.unlink()
        else:
            path.write_bytes(change(good))
        yield
    finally:
        path.write_bytes(good)


def test_any_damage_to_the_newest_falls_back_loudly(trained, tmp_path):
    _, root, names = trained
    seed = int(os.environ.get("STARLING_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    rng = random.Random(seed)
    assert export(root, tmp_path).returncode == 0
    tried = 0
    for path in sorted((root / names[-1]).iterdir()):
        for what, change in damages(path, rng):
            if path.name == "MANIFEST" and change is None:
                continue  # Then it is no checkpoint at all.
            with damaged(path, change):
                done = export(root, tmp_path)
                assert done.returncode == 0, (path.name, what, done.stderr)
                assert f"DAMAGED CHECKPOINT {root / names[-1]}" in done.stderr, (path.name, what, done.stderr)
                assert "FALLING BACK" in done.stderr and f"exported {root / names[-2]}" in done.stderr, (path.name, what, done.stderr)
                tried += 1
    assert tried > 25


def test_damage_below_is_damage_of_all_that_rest_on_it(trained, tmp_path):
    _, root, names = trained
    base = next(p for p in sorted((root / names[0]).iterdir()) if p.name.endswith(".rows"))
    with damaged(base, lambda b: b[:-1]):
        done = export(root, tmp_path)
    assert done.returncode == 5 and done.stderr.count("DAMAGED") == len(names), done.stderr
    with damaged(root / names[1] / "MANIFEST", None):
        done = export(root / names[2], tmp_path)
        assert done.returncode == 5 and "which is missing beside it" in done.stderr


def test_a_manifest_with_blocks_of_another_is_noticed(trained, tmp_path):
    _, root, names = trained
    for file in sorted(p.name for p in (root / names[-1]).iterdir()):
        other = root / names[1] / file
        if other.exists():
            with damaged(root / names[-1] / file, lambda _, other=other: other.read_bytes()):
                done = export(root / names[-1], tmp_path)
                assert done.returncode == 5, (file, done.stderr)
                assert "DAMAGED" in export(root, tmp_path).stderr or file == "MANIFEST"


def test_inspect_verify_reads_every_byte(trained):
    _, root, names = trained
    def verify():
        return subprocess.run([BINARY, "inspect", "--verify", str(root / names[-1])], capture_output=True, text=True, check=False)
    assert verify().returncode == 0
    for name in names:  # Also of what it rests on.
        path = next(p for p in sorted((root / name).iterdir()) if p.name.endswith(".rows"))
        with damaged(path, lambda b: b[:len(b) // 2] + bytes([b[len(b) // 2] ^ 4]) + b[len(b) // 2 + 1:]):
            done = verify()
            assert done.returncode == 5 and path.name in done.stderr, done.stderr


# ---- A real full disk ----


@pytest.fixture
def small_disk(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mount)], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def fill(mount, leave=200 << 10):
    filler = mount / "filler"
    with open(filler, "wb", buffering=0) as f:  # What does not fit must not be tried again by close().
        try:
            while True:
                f.write(b"x" * 65536)
        except OSError:
            pass
    os.truncate(filler, filler.stat().st_size - leave)
    return filler


@pytest.mark.parametrize("policy", ["stop", "wait", "go_on"])
def test_a_full_disk_follows_the_policy_and_harms_no_checkpoint(policy, small_disk, tmp_path):
    run = CrashRun(BINARY, tmp_path / "work", 4, every=20)
    root = small_disk / "ckpt"
    run.config.write_text(run.config.read_text().replace("keep: 2", f'keep: 1, dir: "{root}", on_error: {policy}'))
    run.train(point="checkpoint:after_prune:2")
    before = sorted(p.name for p in root.glob("step-*") if (p / "MANIFEST").exists())
    filler = fill(small_disk)
    log = open(tmp_path / "log", "w+")
    process = subprocess.Popen([BINARY, "train", "--config", str(run.config), "--resume"], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 120
        # A few milliseconds at a time: training must not end before space returns.
        while process.poll() is None and "CHECKPOINT FAILED" not in (tmp_path / "log").read_text():
            assert time.monotonic() < end
            process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
            process.send_signal(signal.SIGSTOP)
        assert set(before) <= {p.name for p in root.glob("step-*") if (p / "MANIFEST").exists()}
        if policy == "wait":
            process.send_signal(signal.SIGCONT)
            time.sleep(1.5)
            assert process.poll() is None
        if policy != "stop":
            filler.unlink()  # Space returns.
        process.send_signal(signal.SIGCONT)
        code = process.wait(timeout=120)
    finally:
        process.kill()
    text = (tmp_path / "log").read_text()
    if policy == "stop":
        assert code == 138 and "No space left" in text, text
        filler.unlink()
        assert not run.train()
    else:
        assert code == 0, text
        assert ("checkpoint written after all" in text) == (policy == "wait"), text
    done = run.call("export", "--config", run.config, "--out", tmp_path / "bundle", "--json")
    assert done.returncode == 0 and '"step": 160' in done.stdout and "DAMAGED" not in done.stderr


def run_out_of_room(binary, small_disk, tmp_path, env=None):
    """Checks every row where a run ended for want of room for its cold rows, and where it came to when it was resumed."""
    run = CrashRun(binary, tmp_path / "work", 4, every=20, env=env)
    text = run.config.read_text().replace("keep: 2", f'keep: 2, dir: "{run.work}/ckpt"')
    run.run_dir = run.work
    filler = fill(small_disk, leave=2 << 20)
    run.config.write_text(text.replace(f'dir: "{run.work}/run"', f'dir: "{small_disk}/run"'))
    done = run.call(*run.command())
    assert done.returncode == 138 and "No space left" in done.stderr and "raise the table's memory" in done.stderr, done.stderr
    assert f"--resume goes on from {run.work}/ckpt/step-" in done.stderr, done.stderr
    run.check()
    assert run.checks == 1
    filler.unlink()  # Space returns.
    assert not run.train()
    run.check(final=True)


def test_no_room_for_cold_rows_ends_the_run_at_its_last_checkpoint(small_disk, tmp_path):
    """A step that could not move rows out of memory has counted some of its ids: it must be in no checkpoint."""
    run_out_of_room(BINARY, small_disk, tmp_path)
