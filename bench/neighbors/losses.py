"""losses.py: trains a small model in deterministic mode, and prints a digest of all its losses: python3 losses.py

Run it alone and under `gridsmith run`: the digests must be the same.
"""
import hashlib
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only so
import torch


def main():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, digest = torch.randn(256, 512, device="cuda"), hashlib.sha256()
    for _ in range(300):
        optimizer.zero_grad()
        loss = (model(inputs) - inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        digest.update(loss.detach().cpu().numpy().tobytes())
    print(digest.hexdigest(), float(loss.detach()))


if __name__ == "__main__":
    main()
