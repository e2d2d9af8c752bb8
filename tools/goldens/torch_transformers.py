"""Transformers in PyTorch, written from the papers: torch's own layers where torch 1.13 has them, else by hand.

Each model has `logits(inputs)` and `names()`, which lists (name in Rapt, parameter, rows or None for all of them).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_new": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}


def padding(lengths, size):
    """True where a position is padding: [B, size]."""
    return torch.arange(size)[None, :] >= lengths[:, None]


def causal(size):
    """True where a query may not look: [size, size]."""
    return torch.ones(size, size, dtype=torch.bool).triu(1)


def sinusoids(length, d):
    angles = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, d, 2) / d)[None, :]
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def alibi(heads, size):
    """-slope * distance: [heads, size, size]."""

    def powers(n):
        return [2.0 ** (-8.0 * i / n) for i in range(1, n + 1)]

    lower = 2 ** int(math.log2(heads))
    slopes = powers(lower) + powers(2 * lower)[0::2][: heads - lower]
    distance = (torch.arange(size)[:, None] - torch.arange(size)[None, :]).abs()
    return -torch.tensor(slopes)[:, None, None] * distance


# ---------------------------------------------------------------------------------------------- names of torch's layers


def whole(path, module):
    """Weight and bias of a Linear, a norm, an Embedding."""
    return [(f"{path}.{name}", parameter, None) for name, parameter in module.named_parameters(recurse=False)]


def attention_names(path, attention):
    d = attention.embed_dim
    names = []
    for i, part in enumerate("qkv"):
        rows = slice(i * d, (i + 1) * d)
        names += [(f"{path}.{part}.weight", attention.in_proj_weight, rows)]
        names += [(f"{path}.{part}.bias", attention.in_proj_bias, rows)]
    return names + whole(f"{path}.o", attention.out_proj)


def layer_names(path, layer):
    """Of nn.TransformerEncoderLayer and nn.TransformerDecoderLayer."""
    norms = ["self_norm", "cross_norm", "ffn_norm"] if hasattr(layer, "multihead_attn") else ["self_norm", "ffn_norm"]
    names = attention_names(f"{path}.self", layer.self_attn)
    if hasattr(layer, "multihead_attn"):
        names += attention_names(f"{path}.cross", layer.multihead_attn)
    names += whole(f"{path}.ffn.w1", layer.linear1) + whole(f"{path}.ffn.w2", layer.linear2)
    for i, norm in enumerate(norms):
        names += whole(f"{path}.{norm}", getattr(layer, f"norm{i + 1}"))
    return names


def stack_names(path, stack):
    names = sum((layer_names(f"{path}.{i}", layer) for i, layer in enumerate(stack.layers)), [])
    return names + (whole(f"{path}.norm", stack.norm) if stack.norm is not None else [])


def layer_arguments(c):
    return dict(d_model=c["d_model"], nhead=c["heads"], dim_feedforward=c["d_ff"], dropout=0.0,
                activation=ACTIVATIONS[c["activation"]], layer_norm_eps=c["norm_eps"], batch_first=True,
                norm_first=c["pre_norm"])


def final_norm(c):
    return nn.LayerNorm(c["d_model"], eps=c["norm_eps"]) if c["pre_norm"] else None


def torch_encoder(c, layers):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer_arguments(c)), layers, final_norm(c))


# ------------------------------------------------------------------------------------------------- encoder and decoder


class Embeddings(nn.Module):
    """The three tables of an encoder-decoder, one, two or three of them tied, with what is added for positions."""

    def __init__(self, c):
        super().__init__()
        d, self.c = c["d_model"], c
        self.target = nn.Embedding(c["target_vocabulary"], d)
        self.source = self.target if c["tying"] == "all" else nn.Embedding(c["source_vocabulary"], d)
        self.output = self.target if c["tying"] != "none" else nn.Linear(d, c["target_vocabulary"], bias=False)
        if c["position"] == "learned":
            self.source_positions = nn.Embedding(c["max_positions"], d)
            self.target_positions = nn.Embedding(c["max_positions"], d)

    def names(self):
        if self.c["tying"] == "all":
            return whole("embedding", self.target)
        names = whole("encoder.embedding", self.source) + whole("decoder.embedding", self.target)
        if self.c["tying"] == "none":
            names += whole("output", self.output)
        if self.c["position"] == "learned":
            names += whole("encoder.positions", self.source_positions)
            names += whole("decoder.positions", self.target_positions)
        return names

    def embed(self, side, ids):
        x = getattr(self, side)(ids) * math.sqrt(self.c["d_model"])
        if self.c["position"] == "sinusoidal":
            x = x + sinusoids(ids.shape[1], self.c["d_model"])
        if self.c["position"] == "learned":
            x = x + getattr(self, side + "_positions")(torch.arange(ids.shape[1]))
        return x

    def logits(self, hidden):
        return F.linear(hidden, self.output.weight)


class EncoderDecoder(nn.Module):
    """Of nn.TransformerEncoder and nn.TransformerDecoder; ALiBi is a float mask."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embeddings = Embeddings(c)
        self.encoder = torch_encoder(c, c["encoder_layers"])
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**layer_arguments(c)), c["decoder_layers"],
                                             final_norm(c))

    def names(self):
        return self.embeddings.names() + stack_names("encoder", self.encoder) + stack_names("decoder", self.decoder)

    def bias(self, batch, size, blocked=None):
        if self.c["position"] != "alibi":
            return blocked
        bias = alibi(self.c["heads"], size)
        if blocked is not None:
            bias = bias.masked_fill(blocked, -math.inf)
        return bias.repeat(batch, 1, 1)

    def logits(self, inputs):
        source, target = inputs["source"], inputs["target_in"]
        hidden = padding(inputs["source_lengths"], source.shape[1])
        memory = self.encoder(self.embeddings.embed("source", source), mask=self.bias(*source.shape),
                              src_key_padding_mask=hidden)
        decoded = self.decoder(self.embeddings.embed("target", target), memory,
                               tgt_mask=self.bias(*target.shape, causal(target.shape[1])),
                               memory_key_padding_mask=hidden)
        return self.embeddings.logits(decoded)


class EncoderOnly(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, self.c = c["d_model"], c
        self.tokens = nn.Embedding(c["vocabulary"], d)
        self.positions = nn.Embedding(c["max_positions"], d)
        self.types = nn.Embedding(c["token_types"], d) if c["token_types"] else None
        self.norm = nn.LayerNorm(d, eps=c["norm_eps"])
        self.encoder = torch_encoder(c, c["layers"])
        if c["head"] == "masked_lm":
            self.transform = nn.Linear(d, d)
            self.transform_norm = nn.LayerNorm(d, eps=c["norm_eps"])
            self.output = nn.Linear(d, c["vocabulary"])
            self.output.weight = self.tokens.weight
        else:
            self.output = nn.Linear(d, c["labels"])
        if c["head"] == "classifier":
            self.pooler = nn.Linear(d, d)

    def names(self):
        names = whole("embedding.tokens", self.tokens) + whole("embedding.positions", self.positions)
        names += whole("embedding.types", self.types) if self.types is not None else []
        names += whole("embedding.norm", self.norm) + stack_names("encoder", self.encoder)
        if self.c["head"] == "masked_lm":
            names += whole("head.transform", self.transform) + whole("head.norm", self.transform_norm)
            return names + [("head.bias", self.output.bias, None)]
        if self.c["head"] == "classifier":
            names += whole("head.pooler", self.pooler)
        return names + whole("head.output", self.output)

    def logits(self, inputs):
        tokens = inputs["tokens"]
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        if self.types is not None:
            x = x + self.types(inputs["types"])
        x = self.encoder(self.norm(x), src_key_padding_mask=padding(inputs["lengths"], tokens.shape[1]))
        if self.c["head"] == "masked_lm":
            x = self.transform_norm(ACTIVATIONS[self.c["activation"]](self.transform(x)))
        if self.c["head"] == "classifier":
            x = torch.tanh(self.pooler(x[:, 0]))
        return self.output(x)


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens = nn.Embedding(c["vocabulary"], c["d_model"])
        self.positions = nn.Embedding(c["max_positions"], c["d_model"])
        self.blocks = torch_encoder({**c, "pre_norm": True}, c["layers"])

    def names(self):
        names = whole("embedding.tokens", self.tokens) + whole("embedding.positions", self.positions)
        return names + stack_names("blocks", self.blocks)

    def logits(self, inputs):
        tokens = inputs["tokens"]
        size = tokens.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(size))
        x = self.blocks(x, mask=causal(size), src_key_padding_mask=padding(inputs["lengths"], size))
        return F.linear(x, self.tokens.weight)


# ----------------------------------------------------------------------- what torch 1.13 does not have, written by hand


class RMSNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary(x, base, interleaved):
    """Pairs of x [B, h, T, d] as complex numbers, turned by position * base^(-2i/d)."""
    length, d = x.shape[-2:]
    pairs = x.unflatten(-1, (d // 2, 2)) if interleaved else torch.stack(x.chunk(2, -1), -1)
    angles = torch.outer(torch.arange(length) * 1.0, base ** (-torch.arange(0, d, 2) / d))
    turns = torch.polar(torch.ones_like(angles), angles)
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turns)
    return turned.flatten(-2) if interleaved else torch.cat(turned.unbind(-1), -1)


class GroupedAttention(nn.Module):
    def __init__(self, c, turned):
        super().__init__()
        d, self.h, self.g = c["d_model"], c["heads"], c["key_heads"]
        self.c, self.turned, self.d_k = c, turned, d // self.h
        bias = c.get("bias", True)
        self.q, self.o = nn.Linear(d, d, bias=bias), nn.Linear(d, d, bias=bias)
        self.k, self.v = nn.Linear(d, self.g * self.d_k, bias=bias), nn.Linear(d, self.g * self.d_k, bias=bias)

    def names(self, path):
        return sum((whole(f"{path}.{part}", getattr(self, part)) for part in "qkvo"), [])

    def forward(self, x, memory, blocked):
        q = self.q(x).unflatten(-1, (self.h, self.d_k)).transpose(1, 2)
        k = self.k(memory).unflatten(-1, (self.g, self.d_k)).transpose(1, 2)
        v = self.v(memory).unflatten(-1, (self.g, self.d_k)).transpose(1, 2)
        if self.turned:
            base, interleaved = self.c.get("rotary_base", 10000.0), self.c.get("rotary_interleaved", False)
            q, k = rotary(q, base, interleaved), rotary(k, base, interleaved)
        k, v = (t.repeat_interleave(self.h // self.g, 1) for t in (k, v))
        scale = math.sqrt(self.d_k) if self.c.get("scaled_attention", True) else 1.0
        weights = (q @ k.transpose(2, 3) / scale).masked_fill(blocked, -math.inf).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class SwiGlu(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, bias = c["d_model"], c.get("bias", True)
        self.gate, self.up = nn.Linear(d, c["d_ff"], bias=bias), nn.Linear(d, c["d_ff"], bias=bias)
        self.w2 = nn.Linear(c["d_ff"], d, bias=bias)

    def names(self, path):
        return sum((whole(f"{path}.{part}", getattr(self, part)) for part in ("gate", "up", "w2")), [])

    def forward(self, x):
        return self.w2(F.silu(self.gate(x)) * self.up(x))


class RotaryLayer(nn.Module):
    """Pre-norm, RMSNorm, SwiGLU, rotary positions, grouped heads; with cross-attention in a decoder."""

    def __init__(self, c, cross):
        super().__init__()
        self.attention, self.ffn = GroupedAttention(c, turned=True), SwiGlu(c)
        self.cross = GroupedAttention(c, turned=False) if cross else None
        self.norms = nn.ModuleDict({n: RMSNorm(c["d_model"], c["norm_eps"])
                                    for n in ["self"] + ["cross"] * cross + ["ffn"]})

    def names(self, path):
        names = self.attention.names(f"{path}.self") + self.ffn.names(f"{path}.ffn")
        names += self.cross.names(f"{path}.cross") if self.cross is not None else []
        return names + sum((whole(f"{path}.{n}_norm", norm) for n, norm in self.norms.items()), [])

    def forward(self, x, blocked, memory=None, memory_blocked=None):
        y = self.norms["self"](x)
        x = x + self.attention(y, y, blocked)
        if self.cross is not None:
            x = x + self.cross(self.norms["cross"](x), memory, memory_blocked)
        return x + self.ffn(self.norms["ffn"](x))


class RotaryStack(nn.Module):
    def __init__(self, c, layers, cross=False):
        super().__init__()
        self.layers = nn.ModuleList(RotaryLayer(c, cross) for _ in range(layers))
        self.norm = RMSNorm(c["d_model"], c["norm_eps"])

    def names(self, path):
        names = sum((layer.names(f"{path}.{i}") for i, layer in enumerate(self.layers)), [])
        return names + whole(f"{path}.norm", self.norm)

    def forward(self, x, *masks):
        for layer in self.layers:
            x = layer(x, *masks)
        return self.norm(x)


class RotaryEncoderDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = Embeddings(c)
        self.encoder = RotaryStack(c, c["encoder_layers"])
        self.decoder = RotaryStack(c, c["decoder_layers"], cross=True)

    def names(self):
        return self.embeddings.names() + self.encoder.names("encoder") + self.decoder.names("decoder")

    def logits(self, inputs):
        source, target = inputs["source"], inputs["target_in"]
        hidden = padding(inputs["source_lengths"], source.shape[1])[:, None, None, :]
        memory = self.encoder(self.embeddings.embed("source", source), hidden)
        x = self.decoder(self.embeddings.embed("target", target), causal(target.shape[1]), memory, hidden)
        return self.embeddings.logits(x)


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tokens = nn.Embedding(c["vocabulary"], c["d_model"])
        self.blocks = RotaryStack(c, c["layers"])
        self.output = nn.Linear(c["d_model"], c["vocabulary"], bias=False)

    def names(self):
        return whole("embedding.tokens", self.tokens) + self.blocks.names("blocks") + whole("output", self.output)

    def logits(self, inputs):
        size = inputs["tokens"].shape[1]
        hidden = causal(size) | padding(inputs["lengths"], size)[:, None, None, :]
        return self.output(self.blocks(self.tokens(inputs["tokens"]), hidden))
