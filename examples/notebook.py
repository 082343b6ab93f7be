# %% [markdown]
# # Will my persistent kernel and NCCL share the GPU?
#
# This is a notebook in plain Python: each `# %%` begins a cell (VS Code and Jupytext open it as a notebook). It also runs as
# a program: `python3 examples/notebook.py`.

# %%
import gridsmith

gpu = gridsmith.Gpu("h200")
print(gpu)

# %% [markdown]
# A persistent kernel fills every SM, and a collective comes behind it. Without a duration, a kernel stays until its exit.

# %%
run = gridsmith.Run()
run.launch("mega", blocks=132, threads=256, registers=168, shared_bytes=200 << 10)
run.launch("nccl", blocks=16, threads=512, registers=96, shared_bytes=60 << 10)
prediction = gpu.predict(run)
print(prediction["nccl"].waiting, "blocks of nccl wait")
print(prediction["nccl"].why)

# %% [markdown]
# What would help? The answers were tried by the engine.

# %%
for fix in gpu.check(run).fixes:
    print("-", fix)

# %% [markdown]
# How does the number of blocks change what fits? The lists are numpy arrays where numpy is installed.

# %%
for blocks in (132, 124, 116):
    run = gridsmith.Run()
    run.launch("mega", blocks=blocks, threads=256, registers=168, shared_bytes=200 << 10)
    run.launch("nccl", blocks=16, threads=512, registers=96, shared_bytes=60 << 10)
    nccl = gpu.predict(run)["nccl"]
    print(blocks, "blocks of mega:", nccl.blocks - nccl.waiting, "of", nccl.blocks, "blocks of nccl start")

# %% [markdown]
# A prediction shows itself in a notebook; `prediction.save("run.svg")` writes the same to a file.

# %%
prediction

# %% [markdown]
# What limits a recorded program, and what would help? Rows are data frames where pandas or polars is installed.

# %%
import pathlib

found = gridsmith.explain(pathlib.Path(__file__).parent.parent / "corpus/h200-program-eager.jsonl.gz")
print(found)
for advice in found.document["advice"][:2]:
    print(f"{advice['least_us']:.0f} us: {advice['sentence']}")
