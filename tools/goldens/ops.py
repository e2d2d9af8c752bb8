#!/usr/bin/env python3
"""Writes tests/data/ops.safetensors: what PyTorch computes in f64 for the operations of src/kernels/kernels.hpp.

Names are case/tensor. Inputs, results and gradients for random upstream gradients (named d and the result's name).
"""

import math
import pathlib

import torch
import torch.nn.functional as F

from safetensors import save

torch.manual_seed(20170612)
torch.set_default_dtype(torch.float64)
goldens = {}


def keep(case, **tensors):
    for name, tensor in tensors.items():
        goldens[f"{case}/{name}"] = tensor.detach().clone()


def leaf(*shape, scale=1.0, shift=0.0):
    return (torch.randn(*shape) * scale + shift).requires_grad_()


def backward(case, inputs, results):
    """Keeps inputs and results, sends random gradients back through the results, keeps the gradients of the inputs."""
    upstream = {name: torch.randn_like(tensor) for name, tensor in results.items()}
    torch.autograd.backward(list(results.values()), list(upstream.values()))
    keep(case, **inputs, **results)
    keep(case, **{f"d{name}": tensor for name, tensor in upstream.items()})
    keep(case, **{f"d{name}": tensor.grad for name, tensor in inputs.items() if tensor.requires_grad})


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def linear():
    for name, activation in ACTIVATIONS.items():
        x, w, b = leaf(5, 7), leaf(4, 7), leaf(4)
        backward(f"linear_{name}", {"x": x, "w": w, "b": b}, {"y": activation(F.linear(x, w, b))})


def unary():
    functions = {
        "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "square": torch.square,
        "softplus": F.softplus, **{k: v for k, v in ACTIVATIONS.items() if k != "none"},
    }
    for name, function in functions.items():
        low = 0.05 if name in ("log", "sqrt") else -7.0
        x = torch.linspace(low, 7.0, 30).requires_grad_()
        backward(f"unary_{name}", {"x": x}, {"y": function(x)})


def norms():
    x, r, gain, bias = leaf(5, 9), leaf(5, 9), leaf(9), leaf(9)
    s = x + r
    backward("layer_norm", {"x": x, "r": r, "gain": gain, "bias": bias},
             {"y": F.layer_norm(s, (9,), gain, bias, 1e-5), "s": s})
    x, gain = leaf(5, 9), leaf(9)
    backward("rms_norm", {"x": x, "gain": gain}, {"y": x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain})


def softmaxes():
    x = leaf(5, 9, scale=3)
    backward("softmax", {"x": x}, {"y": F.softmax(x, -1)})
    x = leaf(5, 9, scale=3)
    backward("log_softmax", {"x": x}, {"y": F.log_softmax(x, -1)})


def cross_entropies():
    targets = torch.tensor([3, -1, 0, 8, 5, -1])
    for smoothing in (0.0, 0.1):
        z = leaf(6, 9, scale=2)
        loss = F.cross_entropy(z, targets, reduction="none", ignore_index=-1, label_smoothing=smoothing)
        (loss.sum() * 0.25).backward()
        keep(f"cross_entropy_{smoothing}", z=z, targets=targets.int(), loss=loss, dz=z.grad,
             hits=(z.argmax(-1) == targets).int())


def embeddings():
    ids = torch.tensor([[3, 1, 3], [0, 6, 1]])
    w, p = leaf(7, 5), torch.randn(3, 5)
    keep("embedding", ids=ids.int().flatten(), p=p)
    y = F.embedding(ids, w) * math.sqrt(5) + p
    backward("embedding", {"w": w}, {"y": y.reshape(6, 5)})


def gated():
    x = leaf(4, 10, scale=2)
    g, u = x.chunk(2, -1)
    backward("swiglu", {"x": x}, {"y": F.silu(g) * u})


def rotary():
    """By complex multiplication: a pair (a, b) is a + ib, turned by e^(i angle)."""
    angles = torch.outer(torch.arange(3, 8), 10000.0 ** (-2 * torch.arange(4) / 8))
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
    x = leaf(2, 5, 3, 8)
    pairs = torch.view_as_complex(x.reshape(2, 5, 3, 4, 2))
    backward("rotary_interleaved", {"x": x}, {"y": torch.view_as_real(pairs * turn).flatten(-2)})
    x = leaf(2, 5, 3, 8)
    turned = torch.complex(x[..., :4], x[..., 4:]) * turn
    backward("rotary_halves", {"x": x}, {"y": torch.cat([turned.real, turned.imag], -1)})


def cells():
    """The weight on the input side is the identity, so the input is what the kernels call gx."""
    B, H = 3, 4
    for name, make, gates in (("rnn", torch.nn.RNNCell, 1), ("lstm", torch.nn.LSTMCell, 4), ("gru", torch.nn.GRUCell, 3)):
        G = gates * H
        cell = make(G, H)
        with torch.no_grad():
            cell.weight_ih.copy_(torch.eye(G))
            cell.bias_ih.zero_()
        inputs = {"gx": leaf(B, G), "h": leaf(B, H), "w": cell.weight_hh, "b": cell.bias_hh}
        if name == "lstm":
            inputs["c"] = leaf(B, H)
            h, c = cell(inputs["gx"], (inputs["h"], inputs["c"]))
            backward(name, inputs, {"h_next": h, "c_next": c})
        else:
            backward(name, inputs, {"h_next": cell(inputs["gx"], inputs["h"])})


def attention():
    """Grouped heads: 4 query heads read 2 key heads."""
    B, Tq, Tk, h, g, d_k, d_v = 2, 5, 7, 4, 2, 6, 3
    lengths, slopes = torch.tensor([7, 4]), torch.tensor([0.5, 0.25, 0.125, 0.0625])
    distance = torch.arange(Tq)[:, None] + Tk - Tq - torch.arange(Tk)[None, :]
    for name in ("plain", "causal", "padding", "causal_padding", "alibi"):
        q, k, v = leaf(B, Tq, h, d_k), leaf(B, Tk, g, d_k), leaf(B, Tk, g, d_v)
        keys, values = k.repeat_interleave(h // g, 2), v.repeat_interleave(h // g, 2)
        scores = torch.einsum("bihd,bjhd->bhij", q, keys) / math.sqrt(d_k)
        if name == "alibi":
            scores = scores - slopes[:, None, None] * distance
        hidden = torch.zeros(B, 1, Tq, Tk, dtype=torch.bool)
        if "causal" in name or name == "alibi":
            hidden = hidden | (distance < 0)
        if "padding" in name:
            hidden = hidden | (torch.arange(Tk) >= lengths[:, None, None, None])
        scores = scores.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1)
        keep(f"attention_{name}", weights=weights, lse=scores.logsumexp(-1), lengths=lengths.int(), slopes=slopes.float())
        backward(f"attention_{name}", {"q": q, "k": k, "v": v}, {"o": torch.einsum("bhij,bjhd->bihd", weights, values)})


def additive():
    q, k, v = leaf(2, 3, 5), leaf(2, 4, 5), leaf(5)
    backward("additive", {"q": q, "k": k, "v": v}, {"e": torch.tanh(q[:, :, None] + k[:, None]) @ v})


def optimisers():
    choices = {
        "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1),
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05),
        "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05, nesterov=True),
    }
    for name, make in choices.items():
        w, g = leaf(11), torch.randn(3, 11)
        keep(name, w=w, g=g)
        optimiser = make([w])
        for gradient in g:
            w.grad = gradient.clone()
            optimiser.step()
        keep(name, w_after=w)


for part in (linear, unary, norms, softmaxes, cross_entropies, embeddings, gated, rotary, cells, attention, additive,
             optimisers):
    part()
target = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "ops.safetensors"
save(target, goldens)
print(f"{target.name}: {len(goldens)} tensors, {target.stat().st_size} bytes")
