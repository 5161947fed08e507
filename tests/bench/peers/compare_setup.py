"""Puts the peers into a folder of their own: pinned packages, and what is preloaded to tune them."""
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path.home() / ".cache" / "starling-peers"
# Without what it asks for: it names FBGEMM by the package for GPUs.
TORCHREC = "torchrec==1.9.2"
TCMALLOC = "libtcmalloc_minimal.so.4"


def python(folder):
    return folder / "venv" / "bin" / "python"


def wanted():
    return (HERE / "requirements.txt").read_text() + TORCHREC + "\n"


def installed(folder):
    stamp = folder / "requirements.txt"
    return stamp.exists() and stamp.read_text() == wanted()


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"compare: {' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")


def install(folder):
    """Idempotent; some 6 GB, since the packages bring CUDA's libraries along."""
    if not installed(folder):
        print(f"compare: peers into {folder} (once; some minutes)", flush=True)
        shutil.rmtree(folder / "venv", ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", folder / "venv"])
        pip = [python(folder), "-m", "pip", "install", "--disable-pip-version-check"]
        run([*pip, "-r", HERE / "requirements.txt"])
        run([*pip, "--no-deps", TORCHREC])
        (folder / "requirements.txt").write_text(wanted())
    make_shim(folder)
    fetch_tcmalloc(folder)


def make_shim(folder):
    shim = folder / "libmkl_on_amd.so"
    compiler = shutil.which("cc")
    if shim.exists():
        return
    if compiler is None:
        print("compare: NO cc: MKL takes whatever path it chooses", file=sys.stderr)
        return
    run([compiler, "-shared", "-fPIC", "-O2", "-o", shim, HERE / "mkl_on_amd.c"])


def find_tcmalloc(folder):
    for root in [folder / "tcmalloc", pathlib.Path("/usr/lib")]:
        for path in sorted(root.rglob(TCMALLOC)) if root.exists() else []:
            return path
    return None


def fetch_tcmalloc(folder):
    """Debian's package, unpacked beside the peers: nothing of the system changes."""
    if find_tcmalloc(folder):
        return
    target = folder / "tcmalloc"
    target.mkdir(exist_ok=True)
    if shutil.which("apt-get") and shutil.which("dpkg"):
        subprocess.run(["apt-get", "download", "libtcmalloc-minimal4"], cwd=target,
                       capture_output=True, check=False)
        for package in target.glob("*.deb"):
            run(["dpkg", "-x", package, target])
    if not find_tcmalloc(folder):
        print(f"compare: NO {TCMALLOC} found: the peers run with the system's malloc",
              file=sys.stderr)


def tuning(folder, openmp):
    """Environment of a tuned run. `openmp`: "intel", or PyTorch's own if it measured faster."""
    paths = [folder / "libmkl_on_amd.so", find_tcmalloc(folder)]
    if openmp == "intel":
        paths.append(folder / "venv" / "lib" / "libiomp5.so")
    return {"LD_PRELOAD": " ".join(str(p) for p in paths if p and p.exists()), "KMP_BLOCKTIME": "1"}
