"""frameworks.py: programs of several kinds under `gridsmith run`, in both classes at the same time:

    python3 bench/neighbors/frameworks.py --gridsmith build/release/gridsmith [--kinds torch,compiled,jax,cupy,nccl,static,shared]
        [--limit S]

The kinds are run serially. Each multiplies matrices of small whole numbers again and again, compares with NumPy, and starts a child that does the
same. "static" and "shared" are a plain CUDA program with the static and the shared runtime; they need nvcc, and also test threads,
graphs, captures and several contexts. Prints for each kind and class whether the results are right, and how many launches
the daemon has counted. Kinds that are not installed are skipped.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 3
MISSING = 77  # the exit status of a program whose framework is not installed


# ---- the programs ----

def torch_product():
    import torch

    return lambda a, b: (torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()).cpu().numpy()


def compiled_product():
    import torch

    multiply = torch.compile(lambda a, b: (a @ b).relu(), fullgraph=True)
    return lambda a, b: multiply(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()).cpu().numpy()


def jax_product():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import numpy

    if jax.default_backend() != "gpu":
        raise ImportError("JAX has no GPU")
    multiply = jax.jit(lambda a, b: a @ b)
    return lambda a, b: numpy.asarray(multiply(a, b))


def cupy_product():
    import cupy

    return lambda a, b: (cupy.asarray(a) @ cupy.asarray(b)).get()


def nccl_product():
    import torch
    import torch.distributed as dist

    if not dist.is_nccl_available():
        raise ImportError("no NCCL")
    dist.init_process_group("nccl", init_method=f"file://{tempfile.mkdtemp()}/here", rank=0, world_size=1)

    def multiply(a, b):
        product = torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()
        gathered = torch.empty_like(product)
        dist.all_reduce(product)
        dist.all_gather_into_tensor(gathered, product)
        return gathered.cpu().numpy()

    return multiply


PRODUCTS = {"torch": torch_product, "compiled": compiled_product, "jax": jax_product, "cupy": cupy_product, "nccl": nccl_product}


def play(kind, seconds):
    try:
        import numpy

        multiply = PRODUCTS[kind]()
    except ImportError as error:
        print(error, file=sys.stderr)
        return MISSING
    random = numpy.random.default_rng(1)
    a, b = (random.integers(0, 8, (512, 512)).astype(numpy.float32) for _ in range(2))
    wanted, rounds, begun = a @ b, 0, None
    while begun is None or time.time() < begun + seconds:
        if not (multiply(a, b) == wanted).all():
            print(f"{kind}: a result is wrong", file=sys.stderr)
            return 1
        begun = begun or time.time()  # the first takes long
        rounds += 1
        time.sleep(0.002)
    return 0


def play_with_child(kind):
    """Plays, and starts a child process, which is a program of its own."""
    status = play(kind, SECONDS)
    if status == 0 and kind == "torch":
        status = subprocess.run([sys.executable, os.path.abspath(__file__), "--play", kind, "--seconds", "0.2"]).returncode
    return status


# ---- running them ----

def command_of(kind, box):
    if kind in PRODUCTS:
        return [sys.executable, os.path.abspath(__file__), "--play", kind]
    program = os.path.join(box, kind)
    if not os.path.exists(program):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.path.exists(nvcc):
            return ["sh", "-c", f"exit {MISSING}"]
        subprocess.run([nvcc, "-cudart", kind, "-arch=native", "-o", program, os.path.join(HERE, "plain_runtime.cu")], check=True)
    return [program, str(SECONDS)]


def count_launches(options, socket, counts):
    text = subprocess.run([options.gridsmith, "status", "--json", "--socket", socket], capture_output=True, text=True,
                          timeout=10).stdout
    for program in json.loads(text or "{}").get("programs", []):
        counts[program["process"]] = program["launches"] + program["graphs"]


def start_daemon(options, socket):
    daemon = subprocess.Popen([options.gridsmith, "serve", "--device", "host", "--profiles", "", "--socket", socket],
                              stderr=subprocess.DEVNULL)
    while not os.path.exists(socket) and daemon.poll() is None:
        time.sleep(0.05)
    return daemon


def run_kind(options, kind, box, socket):
    """In both classes at a time. Returns the class, the exit status and the launches of each."""
    command, counts = command_of(kind, box), {}
    running = {name: subprocess.Popen([options.gridsmith, "run", "--socket", socket, f"--{name}", "--", *command])
               for name in ("latency", "best-effort")}
    ends = time.time() + options.limit
    while any(process.poll() is None for process in running.values()) and time.time() < ends:
        count_launches(options, socket, counts)
        time.sleep(0.2)
    for process in running.values():
        process.kill()  # it may have ended
    return [(name, process.wait(), counts.get(process.pid, 0)) for name, process in running.items()]


def print_row(kind, name, status, launches):
    """Returns whether the program worked as expected."""
    is_right = status == MISSING or (status == 0 and launches > 0)
    result = "skipped" if status == MISSING else "right" if is_right else f"WRONG: exit status {status}"
    print(f"{kind:9} {name:12} {result}, {launches} launches", flush=True)
    return is_right


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--kinds", default=",".join([*PRODUCTS, "static", "shared"]))
    parser.add_argument("--limit", type=float, default=60, help="seconds until the programs of a kind are killed")
    parser.add_argument("--play", help="be one of the programs")
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    if options.play:
        sys.exit(play(options.play, options.seconds) if options.seconds else play_with_child(options.play))
    options.gridsmith = os.path.abspath(options.gridsmith)
    box = tempfile.mkdtemp()
    socket = os.path.join(box, "sock")
    daemon = start_daemon(options, socket)
    rows = [print_row(kind, *row) for kind in options.kinds.split(",") for row in run_kind(options, kind, box, socket)]
    daemon.terminate()
    daemon.wait()
    shutil.rmtree(box, ignore_errors=True)
    sys.exit(not all(rows))


if __name__ == "__main__":
    main()
