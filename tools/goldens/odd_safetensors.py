#!/usr/bin/env python3
"""Writes tests/data/golden.safetensors straight from the definition of the format (standard library only).

The file is deliberately unlike what Rapt writes: header without padding and in another order than the data, an odd
offset that misaligns what follows, a tensor without elements, a scalar, a dtype that Rapt only skips.
"""
import json
import pathlib
import struct

TENSORS = [  # name, dtype, shape, data; in the order of the data
    ("bytes", "I8", [3], struct.pack("<3b", -1, 0, 127)),
    ("misaligned", "F32", [2, 2], struct.pack("<4f", 1.0, -2.5, 3.0e38, 0.0)),
    ("double", "F64", [2], struct.pack("<2d", 0.1, -1e300)),
    ("brain", "BF16", [2], struct.pack("<2H", 0x3F80, 0xC040)),  # 1, -3
    ("half", "F16", [2], struct.pack("<2e", 1.5, -65504.0)),
    ("int", "I32", [2], struct.pack("<2i", -(2**31), 7)),
    ("long", "I64", [1], struct.pack("<q", -(2**53))),
    ("nothing", "F32", [0, 5], b""),
    ("scalar ä", "F32", [], struct.pack("<f", 42.0)),
    ("mask", "BOOL", [2], b"\x01\x00"),
]


def main():
    header, data = {}, b""
    for name, dtype, shape, payload in TENSORS:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(payload)]}
        data += payload
    header = dict(reversed(header.items()))
    header["__metadata__"] = {"format": "pt", "note": "größe"}
    text = json.dumps(header, ensure_ascii=False).encode()
    target = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden.safetensors"
    target.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()
