"""losses.py: work under `gridsmith run` has the same results, bit by bit: python3 bench/neighbors/losses.py [--gridsmith PATH] [--ways mps]

Replays a graph of long kernels that add to what is there, so that a block which runs twice, or not at all, changes the result, and trains
a small model and one with kernels of many milliseconds in deterministic mode: alone, then as a best-effort program beside a
latency program that has requests all the time, by MPS and by time slices, with kernels that can be stopped. Prints a digest of the graph's
results and of all losses of each run, and how many launches and kernels could be stopped. The exit status is 1 if digests differ.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only so
MODELS = {"small": (256, 512, 300), "large": (8192, 4096, 12)}  # rows, width, steps


def train(rows, width, steps):
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, digest = torch.randn(rows, width, device="cuda"), hashlib.sha256()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        digest.update(loss.detach().cpu().numpy().tobytes())
    for values in model.parameters():
        digest.update(values.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def replay(times=300):
    import torch

    torch.manual_seed(0)
    square, places = torch.randn(4096, 4096, device="cuda", dtype=torch.float64) * 0.01, torch.randint(0, 1 << 26, (1 << 22,), device="cuda")
    sums, counts, ones = torch.zeros_like(square), torch.zeros(1 << 26, device="cuda", dtype=torch.int32), torch.ones_like(places, dtype=torch.int32)

    def step():
        sums.addmm_(square, square)
        counts.add_(1)
        counts.index_add_(0, places, ones)

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        step()
        step()
    for number in range(times):
        graph.replay()
        if number % 8 == 0:
            torch.cuda.synchronize()
    digest = hashlib.sha256()
    for values in (sums, counts):
        digest.update(values.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def serve():
    """Requests of about 0.1 ms, until standard input ends."""
    import threading

    import torch

    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    square = torch.randn(1024, 1024, device="cuda").half()
    while not ended.is_set():
        for _ in range(8):
            square @ square
        torch.cuda.synchronize()
        time.sleep(0.002)


def run(command, **options):
    return subprocess.run([sys.executable, os.path.abspath(__file__), "--play", command], stdout=subprocess.PIPE, text=True, **options)


def beside(options, socket, *how):
    """The digests of best-effort work, and how many of its launches and kernels could be stopped."""
    program = [sys.executable, os.path.abspath(__file__), "--play"]
    gridsmith = [options.gridsmith, "run", "--socket", socket]
    mode = [word for word in how if "mps" in word]
    server = subprocess.Popen([*gridsmith, "--latency", *mode, "--", *program, "serve"], stdin=subprocess.PIPE)
    trainer = subprocess.Popen([*gridsmith, "--best-effort", *how, "--", *program, "train"], stdout=subprocess.PIPE, text=True)
    guarded = kernels = 0
    while trainer.poll() is None:
        status = subprocess.run([options.gridsmith, "status", "--json", "--socket", socket], capture_output=True, text=True).stdout
        for work in json.loads(status or "{}").get("programs", []):
            guarded, kernels = max(guarded, work["guarded"]), max(kernels, work["guarded_kernels"])
        time.sleep(0.2)
    server.stdin.close()
    server.wait()
    return trainer.stdout.read().strip(), guarded, kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--ways", nargs="*", default=["mps", "no-mps", "no-mps guard"])
    parser.add_argument("--play", choices=("train", "serve"))
    options = parser.parse_args()
    if options.play:
        print(replay(), *(train(*model) for model in MODELS.values())) if options.play == "train" else serve()
        return
    options.gridsmith = os.path.abspath(options.gridsmith)
    with tempfile.TemporaryDirectory() as box:
        socket = os.path.join(box, "sock")
        daemon = subprocess.Popen([options.gridsmith, "serve", "--device", "host", "--profiles", "", "--socket", socket],
                                  stderr=subprocess.DEVNULL)
        while not os.path.exists(socket) and daemon.poll() is None:
            time.sleep(0.05)
        alone = run("train").stdout.strip()
        print(f"{'alone':28} {alone}", flush=True)
        is_same = bool(alone)
        for how in options.ways:
            digests, guarded, kernels = beside(options, socket, *(f"--{word}" for word in how.split()))
            is_same &= digests == alone
            print(f"{how:28} {digests}, {guarded} launches could be stopped, of {kernels} kernels with those of graphs", flush=True)
        daemon.terminate()
        daemon.wait()
    sys.exit(not is_same)


if __name__ == "__main__":
    main()
