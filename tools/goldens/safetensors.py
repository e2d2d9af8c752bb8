"""Writes safetensors files: 8 bytes of header length, a JSON header, the raw values."""

import json
import struct

import torch

FORMATS = {torch.float64: ("F64", "d"), torch.float32: ("F32", "f"), torch.int32: ("I32", "i"), torch.int64: ("I64", "q")}


def save(path, tensors):
    """Writes {name: tensor} in the order of the names, so that the same values give the same file."""
    header, data = {}, b""
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        dtype, code = FORMATS[tensor.dtype]
        values = struct.pack(f"<{tensor.numel()}{code}", *tensor.flatten().tolist())
        header[name] = {
            "dtype": dtype,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
