# SPDX-License-Identifier: Apache-2.0
"""The llama architecture in PyTorch, with the names and layouts of GGUF: a parameter `blk.0.attn_q`
is the tensor `blk.0.attn_q.weight`, so nothing is renamed or permuted in either direction. RoPE
rotates neighbouring pairs, as GGUF files of this architecture have it."""
from copy import copy
from dataclasses import asdict, dataclass

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each length

LONGEST_WRITTEN_OUT = 1024  # positions; more need too much memory for all pairs


@dataclass
class Config:
    vocab: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    ff: int
    rope_base: float = 10000.0
    eps: float = 1e-5
    context: int = 2048

    @property
    def head_dim(self):
        return self.width // self.heads

    def check(self):
        """Raises ValueError for shapes that no llama file can have."""
        if self.width % self.heads or self.heads % self.kv_heads or self.head_dim % 2:
            raise ValueError(f"width {self.width}, {self.heads} heads, {self.kv_heads} KV heads do "
                             "not go together: heads divides width, KV heads divides heads")


class Block(nn.Module):
    """One layer's weights, [out, in] each."""

    def __init__(self, c):
        super().__init__()
        kv = c.kv_heads * c.head_dim
        shapes = {"attn_norm": (c.width,), "attn_q": (c.width, c.width), "attn_k": (kv, c.width),
                  "attn_v": (kv, c.width), "attn_output": (c.width, c.width),
                  "ffn_norm": (c.width,), "ffn_gate": (c.ff, c.width), "ffn_up": (c.ff, c.width),
                  "ffn_down": (c.width, c.ff)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))


class Cache:
    """Keys and values of the positions so far: [layers][batch, kv_heads, length, head_dim]."""

    def __init__(self, model, batch, length):
        c = model.config
        shape = (c.layers, batch, c.kv_heads, length, c.head_dim)
        self.k = torch.zeros(shape, dtype=model.token_embd.dtype, device=model.token_embd.device)
        self.v = torch.zeros_like(self.k)
        self.used = 0

    def part(self, rows):
        """These rows alone (a slice), with nothing used yet; they stay in this cache's memory."""
        part = copy(self)
        part.k, part.v, part.used = self.k[:, rows], self.v[:, rows], 0
        return part

    def keep(self, rows):
        """Drops all other rows; `rows` ascend."""
        used = slice(self.used)
        for layer in range(len(self.k)):
            for x in (self.k[layer], self.v[layer]):
                x[:len(rows), :, used] = x[rows, :, used]
        self.k, self.v = self.k[:, :len(rows)], self.v[:, :len(rows)]


def causal(q, k, v):
    """Attention of [b, heads, T, head_dim] to the positions before. In bf16 on a CPU, forward and
    backward over all pairs take half the time of scaled_dot_product_attention."""
    t = q.shape[2]
    if (q.device.type != "cpu" or q.dtype != torch.bfloat16 or not q.requires_grad
            or t > LONGEST_WRITTEN_OUT):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.full((t, t), float("-inf"), dtype=q.dtype).triu(1)
    scores = torch.baddbmm(mask, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2),
                           alpha=q.shape[-1] ** -0.5)
    return torch.bmm(torch.softmax(scores, -1).to(v.dtype), v.flatten(0, 1)).view_as(q)


class Llama(nn.Module):
    def __init__(self, config, tied=True):
        super().__init__()
        config.check()
        self.config = config
        self.token_embd = nn.Parameter(torch.empty(config.vocab, config.width))
        self.output_norm = nn.Parameter(torch.empty(config.width))
        self.output = None if tied else nn.Parameter(torch.empty(config.vocab, config.width))
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self.register_buffer("frequencies", config.rope_base ** -half, persistent=False)

    def head(self):
        return self.token_embd if self.output is None else self.output

    def turns(self, start, count):
        """Cosines and sines [count, head_dim / 2] of the positions from `start` on."""
        positions = torch.arange(start, start + count, device=self.frequencies.device)
        angles = positions[:, None].float() * self.frequencies
        return angles.cos(), angles.sin()

    def rope(self, x, turns):
        """x [batch, heads, T, head_dim] rotated by its positions' turns."""
        cos, sin = (t.to(x.dtype) for t in turns)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def norm(self, x, weight):
        if x.is_cuda:  # one kernel
            return F.rms_norm(x, weight.shape, weight.to(x.dtype), self.config.eps)
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.config.eps)
        return y.to(x.dtype) * weight

    def attention(self, block, x, layer, cache, turns):
        c = self.config
        b, t, _ = x.shape
        start = cache.used if cache else 0
        q = F.linear(x, block.attn_q).view(b, t, c.heads, c.head_dim).transpose(1, 2)
        k = F.linear(x, block.attn_k).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        v = F.linear(x, block.attn_v).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        q, k = self.rope(q, turns), self.rope(k, turns)
        group = c.heads // c.kv_heads
        if cache:
            cache.k[layer, :, :, start:start + t] = k
            cache.v[layer, :, :, start:start + t] = v
        if cache and t == 1:  # the query heads of a KV head stand where positions do
            y = F.scaled_dot_product_attention(q.reshape(b, c.kv_heads, group, c.head_dim),
                                               cache.k[layer, :, :, :start + 1],
                                               cache.v[layer, :, :, :start + 1])
            y = y.reshape(b, c.heads, 1, c.head_dim)
        else:
            y = causal(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))
        return F.linear(y.transpose(1, 2).reshape(b, t, c.width), block.attn_output)

    def hidden(self, tokens, cache=None):
        """tokens [batch, T] -> normalized states [batch, T, width]; with a cache in use T is 1."""
        if cache and cache.used and tokens.shape[1] != 1:
            raise ValueError("with a cache in use one position a call")
        x = F.embedding(tokens, self.token_embd)
        turns = self.turns(cache.used if cache else 0, tokens.shape[1])
        for layer, block in enumerate(self.blk):
            x = x + self.attention(block, self.norm(x, block.attn_norm), layer, cache, turns)
            h = self.norm(x, block.ffn_norm)
            x = x + F.linear(F.silu(F.linear(h, block.ffn_gate)) * F.linear(h, block.ffn_up),
                             block.ffn_down)
        if cache:
            cache.used += tokens.shape[1]
        return self.norm(x, self.output_norm)

    def forward(self, tokens, cache=None):
        return F.linear(self.hidden(tokens, cache), self.head())


def field(reader, key, default=None):
    """A metadata value; without a default a missing key is an error."""
    f = reader.get_field(key)
    if f is None and default is None:
        raise ValueError(f"no '{key}' in the GGUF file: is it a model with its tokenizer?")
    return default if f is None else f.contents()


def read_config(reader, vocab):
    arch = field(reader, "general.architecture")
    if arch != "llama":
        raise ValueError(f"architecture '{arch}': this distillation knows 'llama' only")
    heads = field(reader, "llama.attention.head_count")
    config = Config(vocab=vocab, width=field(reader, "llama.embedding_length"),
                    layers=field(reader, "llama.block_count"), heads=heads,
                    kv_heads=field(reader, "llama.attention.head_count_kv", heads),
                    ff=field(reader, "llama.feed_forward_length"),
                    rope_base=field(reader, "llama.rope.freq_base", 10000.0),
                    eps=field(reader, "llama.attention.layer_norm_rms_epsilon", 1e-5),
                    context=field(reader, "llama.context_length", 2048))
    for key in ("llama.rope.dimension_count", "llama.attention.key_length"):
        if field(reader, key, config.head_dim) != config.head_dim:
            raise ValueError(f"{key} is not width / heads: this variant is not supported")
    return config


def load_gguf(path, dtype=torch.float32, device="cpu"):
    """The model of a GGUF file, its weights dequantized."""
    reader = gguf.GGUFReader(path)
    tensors = {t.name: t for t in reader.tensors}
    if "token_embd.weight" not in tensors:
        raise ValueError(f"{path}: no token_embd.weight: not a language model")
    vocab = int(tensors["token_embd.weight"].shape[1])
    model = Llama(read_config(reader, vocab), tied="output.weight" not in tensors)
    model = model.to(dtype)
    used = {"rope_freqs.weight"}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors.get(name + ".weight")
            if tensor is None:
                raise ValueError(f"{path}: no tensor {name}.weight")
            used.add(tensor.name)
            data = gguf.dequantize(tensor.data, tensor.tensor_type)
            if data.shape != tuple(parameter.shape):
                raise ValueError(f"{path}: {tensor.name} is {data.shape}, "
                                 f"expected {tuple(parameter.shape)}")
            parameter.copy_(torch.from_numpy(np.array(data, np.float32)))
        if "rope_freqs.weight" in tensors:  # a divisor for each frequency (Llama 3.1)
            divisor = np.array(tensors["rope_freqs.weight"].data)
            model.frequencies.copy_(model.frequencies / torch.from_numpy(divisor))
    if unknown := sorted(set(tensors) - used):
        raise ValueError(f"{path}: tensors that plain llama has not: {', '.join(unknown[:3])}")
    model.frequencies = model.frequencies.float()
    return model.to(device).eval().requires_grad_(False)


def save_checkpoint(model, path, **notes):
    torch.save({"config": asdict(model.config), "weights": model.state_dict(), "notes": notes},
               path)


def load_checkpoint(path, device="cpu"):
    data = torch.load(path, map_location=device, weights_only=True)
    model = Llama(Config(**data["config"]))
    model.load_state_dict(data["weights"])
    return model.to(device)


def load_draft(path, device="cpu"):
    """A GGUF file or a checkpoint."""
    load = load_gguf if str(path).endswith(".gguf") else load_checkpoint
    return load(path, device=device)
