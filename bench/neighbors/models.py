"""models.py: the requests and the best-effort work of the benchmark of neighbors. Weights and inputs are random.

A request function puts one request into the current stream. A work function puts one step of work there. REQUESTS and WORK
name them; a request of the kind "graph" is captured once and replayed.
"""
import torch
import torch.nn.functional as F

DEVICE = "cuda"


def bert_model():
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)


# ---- requests: a forward pass at batch 1, fp16 ----

def bert_request():
    model, inputs = bert_model().to(DEVICE).half().eval(), torch.randn(1, 128, 1024, device=DEVICE).half()
    return lambda: model(inputs)


def resnet_request():
    import torchvision

    model = torchvision.models.resnet50().to(DEVICE).half().eval()
    inputs = torch.randn(1, 3, 224, 224, device=DEVICE).half()
    return lambda: model(inputs)


def gpt2_request():
    """One decode step of a model of the size of GPT-2: 12 layers, 768 wide, 512 tokens in its cache."""
    width, heads, tokens, layers = 768, 12, 512, 12
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


def triton_request():
    from triton_model import forward

    return forward()


# ---- best-effort work ----

def training(model, inputs, loss_of):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

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
    import torchvision

    wanted = torch.randint(0, 1000, (128,), device=DEVICE)
    return training(torchvision.models.resnet50().to(DEVICE).to(memory_format=torch.channels_last),
                    torch.randn(128, 3, 224, 224, device=DEVICE).to(memory_format=torch.channels_last),
                    lambda output: F.cross_entropy(output, wanted))


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


# A request: its function, whether it is a graph, how many steps one request has, and about how many ms it takes alone.
REQUESTS = {"bert": (bert_request, True, 1, 1), "resnet": (resnet_request, True, 1, 1), "gpt2": (gpt2_request, True, 2, 1),
            "bert-eager": (bert_request, False, 1, 7), "triton": (triton_request, False, 1, 1)}
WORK = {"bert-training": bert_training, "resnet-training": resnet_training, "prefill": prefill}
