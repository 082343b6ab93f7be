"""neighbors.py: what a request pays, and what training keeps, when both share a GPU, in several ways.

    python3 bench/neighbors/neighbors.py --gridsmith build/release/gridsmith [--seconds 15] [--pairs bert,resnet]
                                         [--modes alone,sliced,mps,priorities,ours,ours-sliced] [--json FILE]

Pairs: bert, resnet (PyTorch); plain, plain-long (the CUDA driver and NVRTC alone). Needs a GPU, and for MPS
nvidia-cuda-mps-control. Starts and stops `gridsmith serve` and MPS by itself, in
folders of its own. The modes: each program alone; two processes, time-sliced; MPS; MPS with a stream priority for the
request and a client priority for training; `gridsmith run` under MPS; `gridsmith run` without MPS. Options of
`gridsmith run --best-effort`, and variables, may follow the last two: ours-mps:--ahead=30:--long-sms=80:VARIABLE=VALUE.
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


class Mps:
    """MPS in folders of its own, until it is closed."""

    def __init__(self, is_on):
        self.folder = tempfile.mkdtemp(prefix="gridsmith-mps-") if is_on else None
        self.environment = {}
        if is_on:
            self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder, "CUDA_MPS_LOG_DIRECTORY": self.folder}
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env={**os.environ, **self.environment}, check=True)
            time.sleep(1)

    def __enter__(self):
        return self.environment

    def __exit__(self, *_):
        if self.folder:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=20,
                           env={**os.environ, **self.environment})
            time.sleep(1)
            shutil.rmtree(self.folder, ignore_errors=True)


class Daemon:
    """gridsmith serve at a socket of its own. It plays a GPU on the CPU: the programs use the real one by themselves."""

    def __init__(self, gridsmith):
        self.gridsmith = gridsmith
        self.folder = tempfile.mkdtemp(prefix="gridsmith-serve-")
        self.socket = os.path.join(self.folder, "sock")
        self.process = subprocess.Popen([gridsmith, "serve", "--device", "host", "--profiles", "", "--socket", self.socket],
                                        stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            time.sleep(0.05)

    def run(self, *words):
        return [self.gridsmith, "run", "--socket", self.socket, *words, "--"]

    def status(self):
        text = subprocess.run([self.gridsmith, "status", "--json", "--socket", self.socket], capture_output=True,
                              text=True).stdout
        return json.loads(text or "{}").get("programs", [])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def play(commands, environment, daemon=None):
    """Starts programs, lets them begin together, and returns what each printed, and the daemon's status near the end."""
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, **environment, **own}) for command, own in commands]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    status, results = [], []
    if daemon:
        time.sleep(2)
        status = daemon.status()
    for process in processes:
        results.append(json.loads(process.stdout.readline() or "{}"))
    for process in processes:
        process.wait()
    return results, status


def program(role, kind, seconds):
    files = ["plain.py", role] if kind.startswith("plain") else [role + ".py"]
    return [sys.executable, os.path.join(HERE, files[0]), *files[1:], kind, str(seconds)]


def measure(mode, kind, options):
    """One mode of one pair."""
    serve, train = program("serve", kind, options.seconds), program("train", kind, options.seconds)
    if mode == "alone":
        request = play([(serve, {})], {})[0][0]
        return {"request": request, "training": play([(train, {})], {})[0][0]}
    with Mps(mode in ("mps", "priorities") or mode.startswith("ours-mps")) as mps:
        if mode == "priorities":
            commands = [(serve + ["--priority"], {}), (train, {"CUDA_MPS_CLIENT_PRIORITY": "1"})]
        elif mode.startswith("ours"):
            with Daemon(options.gridsmith) as daemon:
                words = mode.split(":")[1:]
                own = dict(word.split("=", 1) for word in words if not word.startswith("-"))
                commands = [(daemon.run("--latency") + serve, {}),
                            (daemon.run("--best-effort", *(word for word in words if word.startswith("-"))) + train, own)]
                results, status = play(commands, mps, daemon)
                return {"request": results[0], "training": results[1], "programs": status}
        else:
            commands = [(serve, {}), (train, {})]
        results, _ = play(commands, mps)
        return {"request": results[0], "training": results[1]}


def show(kind, mode, result, alone):
    request, training = result.get("request", {}), result.get("training", {})
    if not request or not training:
        print(f"{kind:8} {mode:20} FAILED {result}", flush=True)
        return
    wall, gpu = request["wall_ms"], request["gpu_ms"]
    ratio = wall["p99"] / alone["request"]["wall_ms"]["p99"]
    kept = 100 * training["steps_per_s"] / alone["training"]["steps_per_s"]
    print(f"{kind:8} {mode:20} wall p1 {wall['p1']:.3f} p50 {wall['p50']:.3f} p99 {wall['p99']:.3f} p99.9 {wall['p999']:.3f} | "
          f"gpu p1 {gpu['p1']:.3f} p50 {gpu['p50']:.3f} p99 {gpu['p99']:.3f} | launch p50 {request.get('launch_ms', {}).get('p50', 0):.3f} | p99 {ratio:.2f}x | {training['steps_per_s']:.2f} steps/s, "
          f"{kept:.0f}% kept", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gridsmith", default="build/release/gridsmith")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--pairs", default="bert,resnet")
    parser.add_argument("--modes", default="alone,sliced,mps,priorities,ours-mps,ours-sliced")
    parser.add_argument("--json")
    options = parser.parse_args()
    options.gridsmith = os.path.abspath(options.gridsmith)
    results = {}
    for kind in options.pairs.split(","):
        results[kind] = {}
        for mode in options.modes.split(","):
            results[kind][mode] = measure(mode, kind, options)
            show(kind, mode, results[kind][mode], results[kind].get("alone", results[kind][mode]))
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
