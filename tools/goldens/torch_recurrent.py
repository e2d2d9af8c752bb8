"""Recurrent sequence-to-sequence models in PyTorch: nn.RNN, nn.LSTM, nn.GRU and their cells, attention by hand."""
import math

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from torch_transformers import padding, whole

LAYERS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
CELLS = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}
SIDES = {"weight_ih": "input.weight", "bias_ih": "input.bias", "weight_hh": "hidden.weight", "bias_hh": "hidden.bias"}


def recurrent_names(path, module):
    """Of nn.RNN and its kin: weight_ih_l1_reverse is 1.backward.input.weight."""
    names = []
    for name, parameter in module.named_parameters():
        side, layer = name.replace("_reverse", "").rsplit("_l", 1)
        direction = "" if not module.bidirectional else ".backward" if name.endswith("_reverse") else ".forward"
        names.append((f"{path}.{layer}{direction}.{SIDES[side]}", parameter, None))
    return names


class RecurrentSeq2Seq(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, e, h, layers = c, c["d_embedding"], c["d_hidden"], c["layers"]
        self.lstm, self.directions = c["cell"] == "lstm", 2 if c["bidirectional"] else 1
        m = self.directions * h
        self.source = nn.Embedding(c["source_vocabulary"], e)
        self.target = nn.Embedding(c["target_vocabulary"], e)
        self.encoder = LAYERS[c["cell"]](e, h, layers, batch_first=True, bidirectional=c["bidirectional"])
        self.bridge_h = nn.ModuleList(nn.Linear(m, h) for _ in range(layers))
        self.bridge_c = nn.ModuleList(nn.Linear(m, h) for _ in range(layers if self.lstm else 0))
        kind = c["attention"]
        if kind == "bahdanau":
            self.cells = nn.ModuleList(CELLS[c["cell"]](e + m if i == 0 else h, h) for i in range(layers))
            self.w, self.u = nn.Linear(h, c["d_attention"]), nn.Linear(m, c["d_attention"], bias=False)
            self.v = nn.Parameter(torch.empty(c["d_attention"]))
        else:
            self.decoder = LAYERS[c["cell"]](e, h, layers, batch_first=True)
        if kind == "luong_general" or (kind == "luong_dot" and m != h):
            self.w = nn.Linear(m, h, bias=False)
        if kind != "none":
            self.combine = nn.Linear(h + m + (e if kind == "bahdanau" else 0), h)
        self.output = nn.Linear(h, c["target_vocabulary"])

    def names(self):
        names = whole("encoder.embedding", self.source) + whole("decoder.embedding", self.target)
        names += recurrent_names("encoder", self.encoder) + whole("output", self.output)
        for i in range(self.c["layers"]):
            names += whole(f"bridge.{i}.h", self.bridge_h[i])
            names += whole(f"bridge.{i}.c", self.bridge_c[i]) if self.lstm else []
        kind = self.c["attention"]
        if kind == "bahdanau":
            for i, cell in enumerate(self.cells):
                names += [(f"decoder.{i}.{SIDES[n]}", p, None) for n, p in cell.named_parameters()]
            names += whole("attention.w", self.w) + whole("attention.u", self.u) + [("attention.v", self.v, None)]
        else:
            names += recurrent_names("decoder", self.decoder)
        if hasattr(self, "w") and kind != "bahdanau":
            names += whole("attention.keys" if kind == "luong_dot" else "attention.w", self.w)
        return names + (whole("combine", self.combine) if kind != "none" else [])

    def encode(self, inputs):
        packed = pack_padded_sequence(self.source(inputs["source"]), inputs["source_lengths"], batch_first=True,
                                      enforce_sorted=False)
        states, last = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=inputs["source"].shape[1])
        h, c = last if self.lstm else (last, None)

        def of_layer(x, i):  # [directions * layers, B, H] -> [B, directions * H]
            return torch.cat(list(x[i * self.directions : (i + 1) * self.directions]), -1)

        starts_h = torch.stack([torch.tanh(bridge(of_layer(h, i))) for i, bridge in enumerate(self.bridge_h)])
        if not self.lstm:
            return states, starts_h, None
        return states, starts_h, torch.stack([bridge(of_layer(c, i)) for i, bridge in enumerate(self.bridge_c)])

    def logits(self, inputs):
        memory, h, c = self.encode(inputs)
        hidden = padding(inputs["source_lengths"], memory.shape[1])[:, None, :]
        y = self.target(inputs["target_in"])
        if self.c["attention"] == "bahdanau":
            return self.output(self.bahdanau(y, memory, hidden, h, c))
        s, _ = self.decoder(y, (h, c) if self.lstm else h)
        if self.c["attention"] == "none":
            return self.output(s)
        keys = self.w(memory) if hasattr(self, "w") else memory
        weights = torch.einsum("bth,bsh->bts", s, keys).masked_fill(hidden, -math.inf).softmax(-1)
        return self.output(torch.tanh(self.combine(torch.cat([s, weights @ memory], -1))))

    def bahdanau(self, y, memory, hidden, h, c):
        h, c = list(h), list(c) if self.lstm else None
        rows = []
        for t in range(y.shape[1]):
            scores = torch.tanh(self.w(h[-1])[:, None, :] + self.u(memory)) @ self.v
            weights = scores[:, None, :].masked_fill(hidden, -math.inf).softmax(-1)
            context = (weights @ memory)[:, 0]
            x = torch.cat([y[:, t], context], -1)
            for i, cell in enumerate(self.cells):
                if self.lstm:
                    h[i], c[i] = cell(x, (h[i], c[i]))
                else:
                    h[i] = cell(x, h[i])
                x = h[i]
            rows.append(torch.cat([x, context, y[:, t]], -1))
        return torch.tanh(self.combine(torch.stack(rows, 1)))
