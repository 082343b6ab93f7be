"""More programs for `gridsmith explain`: python3 unseen.py as programs.py. When they were measured first, no rule of what-ifs had
been made with them. Those that are `last` have no part in any rule.

They are written as users of PyTorch write them, with the shapes that these have: a step of a diffusion model, a speech encoder,
a network over a graph, training with accumulated gradients, fine-tuning of adapters, two towers with copies, a beam search, two
heads on two streams, and gradients that are copied to the host beside the backward pass.
"""
import torch

import programs
from programs import HALF, Block, Program

nn, functional = torch.nn, torch.nn.functional
GPU = torch.device("cuda")  # as a context: weights are made there, which is faster than on the host


# ---- a diffusion model ----

class Residual(nn.Module):
    def __init__(self, inside, outside, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inside), nn.GroupNorm(8, outside)
        self.conv1, self.conv2 = nn.Conv2d(inside, outside, 3, padding=1), nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(time, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, height, length = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, 3, self.heads, width // self.heads, height * length).transpose(3, 4).unbind(1)
        y = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(batch, width, height, length))


class UNet(nn.Module):
    def __init__(self, widths=(96, 192, 384), time=256):
        super().__init__()
        one, two, three = widths
        self.register_buffer("frequencies", torch.exp(-torch.arange(32) / 4.0))
        self.embed = nn.Sequential(nn.Linear(64, time), nn.SiLU(), nn.Linear(time, time))
        self.first, self.last = nn.Conv2d(4, one, 3, padding=1), nn.Conv2d(one, 4, 3, padding=1)
        self.down = nn.ModuleList([Residual(one, one, time), Residual(one, two, time), Residual(two, three, time)])
        self.halve = nn.ModuleList([nn.Conv2d(one, one, 3, 2, 1), nn.Conv2d(two, two, 3, 2, 1)])
        self.middle, self.attention = Residual(three, three, time), Attention(three, 6)
        self.up = nn.ModuleList([Residual(2 * three, two, time), Residual(2 * two, one, time), Residual(2 * one, one, time)])

    def forward(self, x, when):
        angles = when * self.frequencies
        t = self.embed(torch.cat([angles.sin(), angles.cos()])[None])
        kept, y = [], self.first(x)
        for i, block in enumerate(self.down):
            y = block(y, t)
            kept.append(y)
            if i < 2:
                y = self.halve[i](y)
        y = self.attention(self.middle(y, t))
        for i, block in enumerate(self.up):
            y = block(torch.cat([y, kept.pop()], 1), t)
            if i < 2:
                y = functional.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(y)


class Diffusion(Program):
    """A denoising step: a small UNet, and the update of the picture."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        with GPU:
            net = UNet().half().eval().to(memory_format=torch.channels_last)
        picture = torch.randn(4, 4, 64, 64, **HALF).to(memory_format=torch.channels_last)
        times = torch.linspace(1, 0, 50, **HALF)

        def step(i):
            with torch.no_grad():
                noise = net(picture, times[i % 50])
                picture.copy_(0.98 * picture - 0.02 * noise)
        return step


# ---- inference ----

class Speech(Program):
    """A speech encoder: convolutions over the frames, attention, and a depthwise convolution in each layer."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        with GPU:
            front = nn.Sequential(nn.Conv1d(80, 512, 3, 1, 1), nn.GELU(), nn.Conv1d(512, 512, 3, 2, 1), nn.GELU()).half()
            blocks = nn.ModuleList(Block(512, 8) for _ in range(6)).half().eval()
            mixers = nn.ModuleList(nn.Conv1d(512, 512, 15, padding=7, groups=512) for _ in range(6)).half()
            head = nn.Linear(512, 4096).half()
        frames = torch.randn(16, 80, 1000, **HALF)

        def step(_):
            with torch.no_grad():
                y = front(frames).transpose(1, 2)
                for block, mixer in zip(blocks, mixers):
                    y = block(y)
                    y = y + functional.silu(mixer(y.transpose(1, 2))).transpose(1, 2)
                return head(y).log_softmax(-1).argmax(-1)
        return step


class GraphNet(Program):
    """Three layers of a network over a graph: messages along edges are added at their targets."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        nodes, edges, width = 20000, 160000, 128
        message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3)).cuda()
        update = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3)).cuda()
        x = torch.randn(nodes, width, device="cuda")
        source, target = (torch.randint(0, nodes, (edges,), device="cuda") for _ in range(2))

        def step(_):
            with torch.no_grad():
                y = x
                for i in range(3):
                    sent = torch.relu(message[i](torch.cat([y[source], y[target]], 1)))
                    total = torch.zeros_like(y).index_add_(0, target, sent)
                    y = y + torch.relu(update[i](torch.cat([y, total], 1)))
                return y.mean(0)
        return step


class Retrieval(Program):
    """Two towers: users and items are copied to the GPU, their scores are computed, and the best are copied back."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        def tower():
            return nn.Sequential(nn.Linear(384, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 128)).half().cuda()
        user_tower, item_tower = tower(), tower()
        names = torch.randn(500000, 128, **HALF)
        numbers = [torch.randn(count, 256, dtype=torch.half).pin_memory() for count in (2048, 8192)]
        ids = [torch.randint(0, 500000, (count, 8)).pin_memory() for count in (2048, 8192)]
        result = torch.empty(2048, 20, dtype=torch.long).pin_memory()

        def embedded(tower, number, which):
            found = functional.embedding(which.to("cuda", non_blocking=True), names).mean(1)
            return functional.normalize(tower(torch.cat([found, number.to("cuda", non_blocking=True)], 1)), dim=1)

        def step(_):
            with torch.no_grad():
                users = embedded(user_tower, numbers[0], ids[0])
                items = embedded(item_tower, numbers[1], ids[1])
                result.copy_(torch.topk(users @ items.T, 20).indices, non_blocking=True)
        return step


class Beam(Program):
    """A token of a beam search. The host looks after each whether all beams have ended."""
    is_independent = False
    steps = 20
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        beams, length, width, words = 8, 128, 512, 32000
        with GPU:
            blocks = nn.ModuleList(Block(width, 8) for _ in range(6)).half().eval()
            embed, head = nn.Embedding(words, width).half(), nn.Linear(width, words, bias=False).half()
        past = [[torch.randn(beams, length, 8, width // 8, **HALF) for _ in range(2)] for _ in blocks]
        token, total = torch.zeros(beams, dtype=torch.long, device="cuda"), torch.zeros(beams, device="cuda")
        ended = torch.zeros((), dtype=torch.bool, device="cuda")

        def step(_):
            with torch.no_grad():
                y = embed(token)[:, None]
                for block, kept in zip(blocks, past):
                    y = block(y, kept)
                scores = total[:, None] + head(y[:, -1]).float().log_softmax(-1)
                best, where = scores.view(-1).topk(beams)
                parents = where // words
                for kept in past:
                    for cache in kept:
                        cache.copy_(cache.index_select(0, parents))
                token.copy_(where % words)
                total.copy_(best - best.max())
                ended.copy_((token == 0).all())

        self.after = lambda: ended.item()
        return step


class Heads(Program):
    """A picture goes through a backbone, and then through two heads on two streams."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=1", "graph,streams=1", "graph,streams=2"]

    def make(self, change):
        def layers(inside, widths, stride):
            found = []
            for width in widths:
                found += [nn.Conv2d(inside, width, 3, stride, 1), nn.BatchNorm2d(width), nn.ReLU()]
                inside = width
            return nn.Sequential(*found).half().cuda().eval().to(memory_format=torch.channels_last)
        backbone, mask, box = layers(3, (64, 128, 256), 2), layers(256, (128, 128, 64), 1), layers(256, (256, 256, 256), 1)
        classes = nn.Conv2d(256, 80, 1).half().cuda().to(memory_format=torch.channels_last)
        x = torch.randn(4, 3, 512, 512, **HALF).to(memory_format=torch.channels_last)
        side = None if change.endswith("streams=1") else torch.cuda.Stream()

        def masks(y):
            return functional.interpolate(mask(y), scale_factor=2.0, mode="bilinear").sigmoid()

        def step(_):
            with torch.no_grad():
                main = torch.cuda.current_stream()
                y = backbone(x)
                if side:
                    side.wait_stream(main)
                with torch.cuda.stream(side):  # None: it stays as it is
                    found = masks(y)
                scores = classes(box(y)).flatten(2).softmax(1).amax(1)
                best = scores.topk(100).indices
                if side:
                    main.wait_stream(side)
                return found, best
        return step


# ---- training ----

class Accumulate(Program):
    """Training with gradients of four small batches. The host reads the loss of each step."""
    steps, recorded, ahead_steps, is_independent = 8, 8, 1, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        with GPU:
            model = nn.Sequential(*(Block(512, 8) for _ in range(3)), nn.Linear(512, 64))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, capturable=True, foreach=True)
        batches = torch.randn(4, 8, 256, 512, device="cuda")
        wanted = torch.randn(4, 8, 256, 64, device="cuda")
        last = torch.zeros((), device="cuda")

        def step(_):
            optimizer.zero_grad(set_to_none=True)
            for x, y in zip(batches, wanted):
                with torch.autocast("cuda", torch.bfloat16):
                    loss = functional.mse_loss(model(x).float(), y) / 4
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            last.copy_(loss.detach())

        self.after = lambda: last.item()
        return step


class Adapted(nn.Module):
    """A layer that is not trained, and two small ones beside it that are."""
    def __init__(self, layer, rank=16):
        super().__init__()
        self.layer = layer
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + 2.0 * self.up(self.down(x))


class Lora(Program):
    """Fine-tuning of adapters of a language model."""
    steps, recorded, ahead_steps, is_independent = 10, 8, 1, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        with GPU:
            blocks = nn.ModuleList(Block(1024, 16) for _ in range(6)).requires_grad_(False)
            for block in blocks:
                block.qkv, block.down = Adapted(block.qkv), Adapted(block.down)
            model = nn.Sequential(*blocks).bfloat16()
            head = nn.Linear(1024, 32000, bias=False).bfloat16().requires_grad_(False)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, capturable=True, foreach=True)
        x = torch.randn(4, 256, 1024, device="cuda", dtype=torch.bfloat16)
        words = torch.randint(0, 32000, (4 * 256,), device="cuda")

        def step(_):
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(head(model(x)).view(-1, 32000).float(), words)
            loss.backward()
            optimizer.step()
        return step


class Offload(Program):
    """A training step whose gradients are copied to the host while the backward pass goes on, on a stream of their own."""
    steps, recorded, ahead_steps, is_independent = 10, 8, 1, False
    changes = ["graph", "host=never-late", "streams=1", "sms=112"]

    def make(self, change):
        with GPU:
            model = nn.Sequential(*(Block(1024, 16) for _ in range(4))).bfloat16()
        x = torch.randn(8, 512, 1024, device="cuda", dtype=torch.bfloat16)
        side = torch.cuda.current_stream() if change == "streams=1" else torch.cuda.Stream()
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

        def copy_out(parameter):
            kept = torch.empty(parameter.shape, dtype=parameter.dtype).pin_memory()

            def run(given):
                here = torch.cuda.current_stream()
                if change == "streams=1":
                    kept.copy_(given.grad, non_blocking=True)
                    return
                side.wait_stream(here)
                with torch.cuda.stream(side):
                    kept.copy_(given.grad, non_blocking=True)
            parameter.register_post_accumulate_grad_hook(run)

        for parameter in model.parameters():
            copy_out(parameter)

        def step(_):
            for parameter in model.parameters():
                parameter.grad.zero_()
            model(x).float().pow(2).mean().backward()
            torch.cuda.current_stream().wait_stream(side)
        return step


# ---- held back ----

class Mixer(Program):
    """Inference of a network of products over tokens and over channels in turn."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        tokens, width, classes = 196, 384, 1000

        def products(size):
            return nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
        with GPU:
            norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(16)).half()
            over = nn.ModuleList(products(tokens if i % 2 == 0 else width) for i in range(16)).half()
            patches, head = nn.Conv2d(3, width, 16, 16).half(), nn.Linear(width, classes).half()
        x = torch.randn(16, 3, 224, 224, **HALF)

        def step(_):
            with torch.no_grad():
                y = patches(x).flatten(2).transpose(1, 2)
                for i in range(0, 16, 2):
                    y = y + over[i](norms[i](y).transpose(1, 2)).transpose(1, 2)
                    y = y + over[i + 1](norms[i + 1](y))
                return head(y.mean(1)).softmax(-1)
        return step


class Heat(Program):
    """Ten time steps of heat on a plate: shifted copies of a large array are added. Limited by memory."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        plate = torch.rand(4096, 4096, device="cuda")

        def step(_):
            y = plate
            for _ in range(10):
                around = y.roll(1, 0) + y.roll(-1, 0) + y.roll(1, 1) + y.roll(-1, 1)
                y = y + 0.2 * (around - 4 * y)
            return y.amax()
        return step


class Cluster(Program):
    """A round of k-means: distances to all centers, the nearest one, and the mean of its points."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        points = torch.randn(100000, 64, device="cuda")
        centers = torch.randn(256, 64, device="cuda")
        ones = torch.ones(100000, device="cuda")

        def step(_):
            nearest = (centers.pow(2).sum(1) - 2 * points @ centers.T).argmin(1)
            total = torch.zeros_like(centers).index_add_(0, nearest, points)
            count = torch.zeros(256, device="cuda").index_add_(0, nearest, ones)
            centers.copy_(total / count.clamp(min=1)[:, None])
        return step


class Policy(Program):
    """A training step of an actor and a critic. Limited by the host."""
    steps, is_independent = 20, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        def network(out):
            return nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, out))
        with GPU:
            actor, critic = network(16), network(1)
        parameters = [*actor.parameters(), *critic.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=1e-4, capturable=True, foreach=True)
        seen, reward = torch.randn(4096, 128, device="cuda"), torch.randn(4096, device="cuda")
        done = torch.randint(0, 16, (4096,), device="cuda")

        def step(_):
            optimizer.zero_grad(set_to_none=True)
            chances, value = actor(seen).log_softmax(-1), critic(seen).squeeze(-1)
            better = (reward - value).detach()
            loss = -(chances.gather(1, done[:, None]).squeeze(1) * better).mean() + functional.mse_loss(value, reward)
            (loss - 0.01 * -(chances.exp() * chances).sum(-1).mean()).backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
        return step


class Classify(Program):
    """Pictures are copied to the GPU and go through a vision transformer; the classes are copied back."""
    steps = 20
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2"]

    def make(self, change):
        with GPU:
            patches, head = nn.Conv2d(3, 384, 16, 16).half(), nn.Linear(384, 1000).half()
            blocks = nn.ModuleList(Block(384, 6) for _ in range(6)).half().eval()
        source = torch.randint(0, 256, (32, 3, 224, 224), dtype=torch.uint8).pin_memory()
        result = torch.empty(32, 5, dtype=torch.long).pin_memory()

        def step(_):
            with torch.no_grad():
                x = source.to("cuda", non_blocking=True).half() / 127.5 - 1
                y = patches(x).flatten(2).transpose(1, 2)
                for block in blocks:
                    y = block(y)
                result.copy_(head(y.mean(1)).topk(5).indices, non_blocking=True)
        return step


# ---- written before those that are held back were measured ----

class Rays(Program):
    """Rays through a scene: positions are encoded by sines, a small network gives colors, and these are added along each ray."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        rays, samples = 4096, 48
        with GPU:
            net = nn.Sequential(nn.Linear(60, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                                nn.Linear(256, 4)).half()
            origin, direction = torch.randn(rays, 1, 3), functional.normalize(torch.randn(rays, 1, 3), dim=-1)
            depth, scales = torch.linspace(2, 6, samples)[None, :, None], 2.0 ** torch.arange(10)

        def step(_):
            with torch.no_grad():
                at = (origin + depth * direction)[..., None] * scales
                out = net(torch.cat([at.sin(), at.cos()], -1).flatten(2).half()).float()
                light = torch.exp(-functional.relu(out[..., 3]) * (4 / samples))
                left = torch.cumprod(light, 1)
                return ((left * (1 - light))[..., None] * out[..., :3].sigmoid()).sum(1)
        return step


class Rival(Program):
    """A training step of two networks against each other: one makes pictures, the other tells them from real ones."""
    steps, recorded, ahead_steps, is_independent = 20, 10, 2, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        with GPU:
            maker = nn.Sequential(nn.ConvTranspose2d(64, 128, 4), nn.ReLU(), nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ReLU(),
                                  nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())
            judge = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2),
                                  nn.Conv2d(64, 128, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(128, 1, 4))
        optimizers = [torch.optim.Adam(net.parameters(), lr=1e-4, capturable=True, foreach=True) for net in (maker, judge)]
        real, noise = torch.randn(64, 3, 32, 32, device="cuda"), torch.randn(64, 64, 1, 1, device="cuda")

        def step(_):
            made = maker(noise)
            optimizers[1].zero_grad(set_to_none=True)
            (functional.softplus(-judge(real)).mean() + functional.softplus(judge(made.detach())).mean()).backward()
            optimizers[1].step()
            optimizers[0].zero_grad(set_to_none=True)
            functional.softplus(-judge(made)).mean().backward()
            optimizers[0].step()
        return step


class Spectral(Program):
    """A network that multiplies the low frequencies of a field by weights: Fourier transforms there and back in each layer."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        batch, width, size, kept, layers = 8, 32, 128, 16, 4
        with GPU:
            weights = [torch.randn(width, width, kept, kept, dtype=torch.cfloat) for _ in range(layers)]
            mixers = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
            first, last = nn.Conv2d(3, width, 1), nn.Conv2d(width, 1, 1)
            field = torch.randn(batch, 3, size, size)

        def step(_):
            with torch.no_grad():
                y = first(field)
                for weight, mixer in zip(weights, mixers):
                    waves = torch.fft.rfft2(y)
                    low = torch.zeros_like(waves)
                    low[:, :, :kept, :kept] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :kept, :kept], weight)
                    y = functional.gelu(torch.fft.irfft2(low, s=(size, size)) + mixer(y))
                return last(y)
        return step


class Query(Program):
    """A query of a table: rows are chosen, joined with a second table by their key, summed by group, and the largest groups sorted."""
    steps = 12
    changes = ["graph", "host=never-late", "streams=2", "graph,streams=2", "sms=112"]

    def make(self, change):
        rows, keys, groups = 1 << 20, 50000, 4096
        with GPU:
            key, amount = torch.randint(0, keys, (rows,)), torch.rand(rows)
            known = torch.sort(torch.randperm(keys)[:keys // 2]).values
            group, rate = torch.randint(0, groups, (keys // 2,)), torch.rand(keys // 2)

        def step(_):
            with torch.no_grad():
                place = torch.searchsorted(known, key).clamp(max=keys // 2 - 1)
                is_chosen = (known[place] == key) & (amount > 0.25)
                value = is_chosen * amount * rate[place]
                total = torch.zeros(groups, device="cuda").index_add_(0, group[place], value)
                best = torch.sort(total, descending=True)
                running = torch.cumsum(value, 0)
                return best.values[:100], best.indices[:100], running[-1]
        return step


class Ensemble(Program):
    """Three networks look at the same rows, each on a stream of its own, and their answers are averaged."""
    changes = ["graph", "host=never-late", "streams=1", "graph,streams=1"]

    def make(self, change):
        def network(width, depth):
            layers = [nn.Linear(256, width)]
            for _ in range(depth):
                layers += [nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width)]
            return nn.Sequential(*layers, nn.Linear(width, 32)).half().cuda().eval()
        networks = [network(512, 8), network(1024, 5), network(2048, 3)]
        x = torch.randn(2048, 256, **HALF)
        sides = [] if change.endswith("streams=1") else [torch.cuda.Stream() for _ in networks[1:]]

        def step(_):
            with torch.no_grad():
                main = torch.cuda.current_stream()
                for side in sides:
                    side.wait_stream(main)
                answers = [networks[0](x)]
                for i, net in enumerate(networks[1:]):
                    with torch.cuda.stream(sides[i] if sides else None):  # None: it stays as it is
                        answers.append(net(x))
                for side in sides:
                    main.wait_stream(side)
                return torch.stack(answers).float().softmax(-1).mean(0)
        return step


class Solve(Program):
    """Ten rounds of conjugate gradients with a large matrix. After them the host looks how far the solution is off."""
    steps, is_independent = 20, False
    changes = ["graph", "host=never-late", "sms=112", "sms=64"]

    def make(self, change):
        size = 6144
        with GPU:
            matrix = torch.randn(size, size) * 0.01
            matrix = matrix @ matrix.T + torch.eye(size)
            wanted = torch.randn(size)
            off = torch.zeros(())

        def step(_):
            with torch.no_grad():
                found = torch.zeros_like(wanted)
                rest = wanted.clone()
                way, square = rest.clone(), rest.dot(rest)
                for _ in range(10):
                    moved = torch.mv(matrix, way)
                    far = square / way.dot(moved)
                    found.add_(far * way)
                    rest.sub_(far * moved)
                    new = rest.dot(rest)
                    way = rest + new / square * way
                    square = new
                off.copy_(square.sqrt())

        self.after = lambda: off.item()
        return step


HELD = {"mixer": Mixer, "heat": Heat, "cluster": Cluster, "policy": Policy, "classify": Classify}
UNSEEN = {"diffusion": Diffusion, "speech": Speech, "graphnet": GraphNet, "retrieval": Retrieval, "beam": Beam, "heads": Heads,
          "accumulate": Accumulate, "lora": Lora, "offload": Offload}
LAST = {"rays": Rays, "rival": Rival, "spectral": Spectral, "query": Query, "ensemble": Ensemble, "solve": Solve}
programs.SETS.update(unseen=UNSEEN, held=HELD, last=LAST)
programs.ALL.update({**UNSEEN, **HELD, **LAST})

if __name__ == "__main__":
    programs.main()
