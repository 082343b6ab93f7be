"""models.py: the models of the benchmark of neighbors: what a request is, and what a training step is.

Each request is a forward pass at batch 1 in fp16. Each step is bf16 training with SGD. Weights and inputs are random.
"""
import torch

DEVICE = "cuda"


def bert():
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 24)


def resnet():
    import torchvision

    return torchvision.models.resnet50()


def request(kind):
    """A function that puts one request into the current stream."""
    if kind == "resnet":
        model, inputs = resnet(), torch.randn(1, 3, 224, 224, device=DEVICE).half()
    else:
        model, inputs = bert(), torch.randn(1, 128, 1024, device=DEVICE).half()
    model = model.half().eval().to(DEVICE)
    return lambda: model(inputs)


def step(kind):
    """A function that puts one training step into the current stream, and returns the loss."""
    if kind == "resnet":
        model = resnet().to(DEVICE).to(memory_format=torch.channels_last)
        inputs = torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last)
        wanted = torch.randint(0, 1000, (128,), device=DEVICE)
        loss_of = lambda output: torch.nn.functional.cross_entropy(output, wanted)
    else:
        model = bert().to(DEVICE)
        inputs = torch.randn(16, 512, 1024, device=DEVICE)
        loss_of = lambda output: output.float().pow(2).mean()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def take_step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(inputs))
        loss.backward()
        optimizer.step()
        return loss

    return take_step
