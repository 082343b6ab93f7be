"""models.py: the requests and the best-effort work of the benchmark of neighbors. Weights and inputs are random.

A request function returns a function that puts one step of a request into the current stream; a work function one that puts a
step of work there. REQUESTS and WORK name them. They need only PyTorch, and one of them Triton.
"""
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F

DEVICE = "cuda"


def bert_model():
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)


class Bottleneck(torch.nn.Module):
    def __init__(self, entering, width, stride):
        super().__init__()
        nn, leaving = torch.nn, 4 * width
        self.body = nn.Sequential(nn.Conv2d(entering, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  nn.Conv2d(width, leaving, 1, bias=False), nn.BatchNorm2d(leaving))
        self.side = nn.Identity() if entering == leaving else nn.Sequential(
            nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))

    def forward(self, state):
        return F.relu(self.body(state) + self.side(state), inplace=True)


def resnet_model():
    """ResNet-50."""
    nn, entering = torch.nn, 64
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for number in range(blocks):
            layers.append(Bottleneck(entering, width, stride if number == 0 else 1))
            entering = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(entering, 1000))


class CausalLayer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, state):
        batch, tokens, width = state.shape
        query, key, value = self.qkv(self.before(state)).view(
            batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        state = state + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return state + self.down(F.gelu(self.up(self.between(state))))


class Gpt2(torch.nn.Module):
    """A model of the size of GPT-2: 12 layers, 768 wide."""

    def __init__(self, width=768, heads=12, layers=12, tokens=1024, words=50257):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(tokens, width)
        self.layers = torch.nn.Sequential(*[CausalLayer(width, heads) for _ in range(layers)])
        self.last, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words, bias=False)

    def forward(self, text):
        state = self.words(text) + self.places.weight[:text.shape[1]]
        return self.head(self.last(self.layers(state)))


def perceptron(*widths):
    layers = [layer for entering, leaving in zip(widths, widths[1:])
              for layer in (torch.nn.Linear(entering, leaving), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]).to(DEVICE).half().eval()


# ---- requests: a forward pass, fp16, at batch 1 unless said otherwise ----

def bert_request():
    model, inputs = bert_model().to(DEVICE).half().eval(), torch.randn(1, 128, 1024, device=DEVICE).half()
    return lambda: model(inputs)


def resnet_request():
    model = resnet_model().to(DEVICE).half().eval()
    inputs = torch.randn(1, 3, 224, 224, device=DEVICE).half()
    return lambda: model(inputs)


def decode_step(layers, width, heads, tokens=512):
    """One decode step of a model with so many tokens in its cache."""
    weight = lambda *shape: torch.randn(*shape, device=DEVICE).half() * 0.02
    stack = [dict(qkv=weight(3 * width, width), out=weight(width, width), up=weight(4 * width, width),
                  down=weight(width, 4 * width), keys=weight(1, heads, tokens, width // heads),
                  values=weight(1, heads, tokens, width // heads)) for _ in range(layers)]
    head, start = weight(50257, width), weight(1, width)

    def decode():
        state = start
        for layer in stack:
            normal = F.layer_norm(state, (width,))
            query, key, value = F.linear(normal, layer["qkv"]).view(3, 1, heads, 1, width // heads).unbind(0)
            layer["keys"][:, :, -1:] = key
            layer["values"][:, :, -1:] = value
            seen = F.scaled_dot_product_attention(query, layer["keys"], layer["values"])
            state = state + F.linear(seen.reshape(1, width), layer["out"])
            state = state + F.linear(F.gelu(F.linear(F.layer_norm(state, (width,)), layer["up"])), layer["down"])
        return F.linear(state, head).argmax()

    return decode


def gpt2_request():
    return decode_step(12, 768, 12)


def tokens_request():
    return decode_step(18, 1024, 16)


def vit_request():
    """A vision transformer of the size of ViT-L: 8 images in patches of 16 x 16."""
    patches, body = torch.nn.Conv2d(3, 1024, 16, 16).to(DEVICE).half(), bert_model().to(DEVICE).half().eval()
    places, head = torch.randn(196, 1024, device=DEVICE).half(), torch.nn.Linear(1024, 1000).to(DEVICE).half()
    inputs = torch.randn(8, 3, 224, 224, device=DEVICE).half()
    return lambda: head(body(patches(inputs).flatten(2).transpose(1, 2) + places).mean(1))


def recommender_request():
    """Features are copied to the GPU, 26 tables are looked up, and the answer is copied back. 256 at a time."""
    rows, tables, width, batch = 100000, 26, 64, 256
    table, offsets = torch.randn(tables * rows, width, device=DEVICE).half(), torch.arange(tables, device=DEVICE) * rows
    bottom, top = perceptron(13, 512, 256, width), perceptron(width + (tables + 1) ** 2, 512, 256, 1)
    dense, sparse = torch.randn(batch, 13).half().pin_memory(), torch.randint(0, rows, (batch, tables)).pin_memory()
    answer = torch.empty(batch, 1, dtype=torch.float16).pin_memory()

    def request():
        near = bottom(dense.to(DEVICE, non_blocking=True))
        found = F.embedding(sparse.to(DEVICE, non_blocking=True) + offsets, table)
        seen = torch.cat((near.unsqueeze(1), found), 1)
        products = torch.bmm(seen, seen.transpose(1, 2)).flatten(1)
        answer.copy_(top(torch.cat((near, products), 1)), non_blocking=True)

    return request


def convolutions_request():
    """Two branches of 10 convolutions, each in a stream of its own. 16 images."""
    branch = lambda: torch.nn.Sequential(*[layer for _ in range(10) for layer in (
        torch.nn.Conv2d(128, 128, 3, padding=1), torch.nn.ReLU(inplace=True))]).to(DEVICE).half().eval()
    left, right, beside = branch(), branch(), torch.cuda.Stream()
    inputs = torch.randn(16, 128, 112, 112, device=DEVICE).half()

    def request():
        here = torch.cuda.current_stream()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            other = right(inputs)
        one = left(inputs)
        here.wait_stream(beside)
        other.record_stream(here)
        return (one + other).mean()

    return request


def triton_request():
    from triton_model import forward

    return forward()


# ---- best-effort work ----

def training(model, inputs, loss_of, optimizer_of=torch.optim.SGD):
    optimizer = optimizer_of(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = loss_of(model(inputs))
        loss.backward()
        optimizer.step()
        return loss

    return step


def bert_training():
    return training(bert_model().to(DEVICE), torch.randn(16, 512, 1024, device=DEVICE),
                    lambda output: output.float().pow(2).mean())


def resnet_training():
    wanted = torch.randint(0, 1000, (128,), device=DEVICE)
    return training(resnet_model().to(DEVICE).to(memory_format=torch.channels_last),
                    torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last),
                    lambda output: F.cross_entropy(output, wanted))


def gpt2_training():
    text = torch.randint(0, 50257, (4, 1025), device=DEVICE)
    return training(Gpt2().to(DEVICE), text[:, :-1], lambda output: F.cross_entropy(output.flatten(0, 1), text[:, 1:].flatten()),
                    torch.optim.AdamW)


def lstm_training():
    """Each step gets 256 MB from the host, and uses a quarter of it."""
    given, inputs = torch.randn(256, 256, 1024).pin_memory(), torch.empty(256, 256, 1024, device=DEVICE)
    train = training(torch.nn.LSTM(1024, 1024, 2, batch_first=True).to(DEVICE), inputs[:64],
                     lambda output: output[0].float().pow(2).mean())

    def step():
        inputs.copy_(given, non_blocking=True)
        return train()

    return step


def long_kernels():
    """Kernels of up to 20 ms: a matrix product in fp64, a sort, a Fourier transform."""
    square = torch.randn(8192, 8192, device=DEVICE, dtype=torch.float64)
    numbers, signal = torch.randn(1 << 27, device=DEVICE), torch.randn(1 << 27, device=DEVICE, dtype=torch.complex64)

    @torch.inference_mode()
    def step():
        square @ square
        numbers.sort()
        torch.fft.fft(signal)

    return step


def bert_graph():
    """Four forward passes of 16 x 512 tokens as one graph."""
    model, inputs = bert_model().to(DEVICE).bfloat16().eval(), torch.randn(16, 512, 1024, device=DEVICE).bfloat16()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.inference_mode():
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(inputs)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(4):
                model(inputs)

    def step():
        graph.replay()

    step.needs = model, inputs, graph
    return step


def prefill():
    """The prefill of 2048 tokens by 8 layers of a model of the shape of Llama 7B, bf16."""
    width, wide, heads, tokens, layers = 4096, 11008, 32, 2048, 8
    weight = lambda *shape: torch.randn(*shape, device=DEVICE).bfloat16() * 0.02
    stack = [dict(qkv=weight(3 * width, width), out=weight(width, width), gate=weight(wide, width), up=weight(wide, width),
                  down=weight(width, wide)) for _ in range(layers)]
    inputs = weight(tokens, width)

    @torch.inference_mode()
    def step():
        state = inputs
        for layer in stack:
            query, key, value = F.linear(F.rms_norm(state, (width,)), layer["qkv"]).view(
                tokens, 3, heads, width // heads).permute(1, 2, 0, 3).unsqueeze(1).unbind(0)
            seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            state = state + F.linear(seen[0].transpose(0, 1).reshape(tokens, width), layer["out"])
            normal = F.rms_norm(state, (width,))
            state = state + F.linear(F.silu(F.linear(normal, layer["gate"])) * F.linear(normal, layer["up"]), layer["down"])
        return state

    return step


class Request(NamedTuple):
    make: Callable
    form: str  # "graph": captured once and replayed; "tokens": the same, but each step copies its answer and is waited for; "eager"
    steps: int
    about_ms: float  # alone
    pauses: str = "uniform"


REQUESTS = {
    "bert": Request(bert_request, "graph", 1, 1),
    "resnet": Request(resnet_request, "graph", 1, 1),
    "gpt2": Request(gpt2_request, "graph", 2, 1),
    "bert-eager": Request(bert_request, "eager", 1, 7),
    "triton": Request(triton_request, "eager", 1, 1),
    "vit": Request(vit_request, "graph", 1, 2.6, "exponential"),
    "tokens": Request(tokens_request, "tokens", 16, 13, "exponential"),
    "recommender": Request(recommender_request, "eager", 1, 0.4, "exponential"),
    "convolutions": Request(convolutions_request, "eager", 1, 5.6, "exponential"),
}
WORK = {"bert-training": bert_training, "resnet-training": resnet_training, "prefill": prefill, "gpt2-training": gpt2_training,
        "lstm-training": lstm_training, "long-kernels": long_kernels, "bert-graph": bert_graph}
