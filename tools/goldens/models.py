#!/usr/bin/env python3
"""Writes tests/data/models/*.safetensors: tiny models with what PyTorch computes for them.

Run as `/usr/bin/python3 tools/goldens/models.py` with Debian's python3-torch (1.13, CPU). Each file holds
  weight.NAME    F32: what the model starts from, under the names that Rapt uses
  source, tokens, lengths, labels ...   I32: the batch
  logits, loss, grad.NAME               F64: of the first forward and backward pass
  losses                                F64: before each of ten optimiser steps on the same batch
and in its metadata the family, the config.json, the loss and the optimiser.
"""
import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F

from torch_recurrent import RecurrentSeq2Seq
from torch_transformers import EncoderDecoder, EncoderOnly, Gpt2, Llama, RotaryEncoderDecoder

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
STEPS = 10

ADAM = dict(kind="adam", lr=0.01, beta1=0.9, beta2=0.98, eps=1e-9)
ADAMW = dict(kind="adamw", lr=0.01, beta1=0.9, beta2=0.98, eps=1e-9, decay=0.1)
SGD = dict(kind="sgd", lr=0.1, momentum=0.9)

# -------------------------------------------------------------------------------------------------------------- batches


def ids(random, vocabulary, *shape):
    """Tokens from 3 on; 0, 1 and 2 are padding, begin and end."""
    return torch.randint(3, vocabulary, shape, generator=random)


def pad_after(tokens, lengths, pad=0):
    return tokens.masked_fill(torch.arange(tokens.shape[1])[None, :] >= lengths[:, None], pad)


def translation_batch(c, random):
    source_lengths, target_lengths = torch.tensor([6, 4, 1]), torch.tensor([3, 5, 4])
    target = ids(random, c["target_vocabulary"], 3, 4)
    target_in = torch.cat([torch.ones(3, 1, dtype=torch.int64), target], 1)
    labels = torch.cat([target, torch.full((3, 1), 2)], 1).scatter(1, target_lengths[:, None] - 1, 2)
    return dict(source=pad_after(ids(random, c["source_vocabulary"], 3, 6), source_lengths),
                source_lengths=source_lengths, target_in=pad_after(target_in, target_lengths),
                labels=pad_after(labels, target_lengths))


def encoder_batch(c, random):
    lengths = torch.tensor([6, 3, 5])
    tokens = pad_after(ids(random, c["vocabulary"], 3, 6), lengths)
    batch = dict(tokens=tokens, lengths=lengths)
    if c["token_types"]:
        batch["types"] = (torch.arange(6)[None, :] >= torch.tensor([[3], [2], [6]])).long()
    if c["head"] == "masked_lm":
        masked = torch.tensor([[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]]).bool()
        batch["labels"] = tokens.masked_fill(~masked, -100)
        batch["tokens"] = tokens.masked_fill(masked, 1)
    elif c["head"] == "classifier":
        batch["labels"] = torch.tensor([2, 0, 1])
    else:
        batch["labels"] = pad_after(torch.randint(0, c["labels"], (3, 6), generator=random), lengths, -100)
    return batch


def text_batch(c, random):
    lengths = torch.tensor([7, 4, 6])
    tokens = pad_after(ids(random, c["vocabulary"], 3, 8), lengths + 1)
    return dict(tokens=pad_after(tokens[:, :-1], lengths), lengths=lengths, labels=pad_after(tokens[:, 1:], lengths))


# ---------------------------------------------------------------------------------------------------------------- cases


def encoder_decoder(**changes):
    return dict(model_type="rapt-encoder-decoder", source_vocabulary=11, target_vocabulary=11, d_model=8, d_ff=12,
                encoder_layers=2, decoder_layers=2, heads=2, dropout=0.0, activation="relu", norm_eps=1e-5,
                pre_norm=False, position="sinusoidal", max_positions=8, tying="all") | changes


def encoder_only(**changes):
    return dict(model_type="rapt-encoder", vocabulary=12, d_model=8, d_ff=12, layers=2, heads=2, max_positions=7,
                token_types=2, dropout=0.0, attention_dropout=0.0, activation="gelu", norm_eps=1e-12,
                pre_norm=False, labels=3) | changes


def decoder_only(**changes):
    return dict(model_type="rapt-decoder", vocabulary=13, d_model=8, d_ff=12, layers=2, heads=2, max_positions=9,
                dropout=0.0, attention_dropout=0.0, activation="gelu_new", norm_eps=1e-5) | changes


def llama(**changes):
    return decoder_only(d_model=16, heads=4, key_heads=2, gated=True, norm="rms", position="rotary", bias=False,
                        tie_embeddings=False, activation="silu") | changes


def recurrent(**changes):
    return dict(model_type="rapt-recurrent", source_vocabulary=11, target_vocabulary=12, d_embedding=5, d_hidden=6,
                d_attention=7, layers=1, cell="gru", bidirectional=True, attention="bahdanau", dropout=0.0) | changes


def case(model, batch, config, optimiser=ADAM, smoothing=0.0, ignore=0, clip=0.0):
    return dict(model=model, batch=batch, config=config, smoothing=smoothing, ignore=ignore,
                optimiser=optimiser | dict(clip=clip))


def translation(model, config, **more):
    return case(model, translation_batch, config, **more)


CASES = {
    "encoder_decoder_paper": translation(EncoderDecoder, encoder_decoder(), smoothing=0.1),
    "encoder_decoder_pre_norm": translation(
        EncoderDecoder, encoder_decoder(target_vocabulary=13, pre_norm=True, activation="gelu", position="learned",
                                        tying="none"), optimiser=ADAMW, clip=0.5),
    "encoder_decoder_rotary": translation(
        RotaryEncoderDecoder, encoder_decoder(target_vocabulary=13, d_model=16, heads=4, key_heads=2, norm="rms",
                                              gated=True, pre_norm=True, position="rotary", tying="decoder",
                                              decoder_layers=1), smoothing=0.1, clip=1.0),
    "encoder_decoder_alibi": translation(
        EncoderDecoder, encoder_decoder(target_vocabulary=13, d_model=12, heads=3, position="alibi", tying="decoder",
                                        encoder_layers=1), optimiser=SGD, clip=0.5),
    "encoder_masked_lm": case(EncoderOnly, encoder_batch, encoder_only(head="masked_lm"), ignore=-100),
    "encoder_classifier": case(EncoderOnly, encoder_batch, encoder_only(head="classifier"), ignore=-100, optimiser=SGD),
    "encoder_tagger": case(EncoderOnly, encoder_batch, encoder_only(head="tagger", pre_norm=True, token_types=0,
                                                                    activation="relu"),
                           ignore=-100, smoothing=0.1, optimiser=ADAMW),
    "decoder_gpt2": case(Gpt2, text_batch, decoder_only(), optimiser=ADAMW, clip=1.0),
    "decoder_llama": case(Llama, text_batch, llama()),
    "decoder_llama_interleaved": case(Llama, text_batch, llama(key_heads=1, layers=1, rotary_interleaved=True,
                                                               rotary_base=500.0, scaled_attention=False),
                                      smoothing=0.1, optimiser=SGD),
    "recurrent_rnn_none": translation(RecurrentSeq2Seq, recurrent(cell="rnn", attention="none")),
    "recurrent_rnn_luong_dot": translation(RecurrentSeq2Seq, recurrent(cell="rnn", attention="luong_dot",
                                                                       bidirectional=False), smoothing=0.1),
    "recurrent_gru_bahdanau": translation(RecurrentSeq2Seq, recurrent(), smoothing=0.1, clip=0.5),
    "recurrent_gru_luong_dot": translation(RecurrentSeq2Seq, recurrent(attention="luong_dot", layers=2), optimiser=SGD),
    "recurrent_lstm_none": translation(RecurrentSeq2Seq, recurrent(cell="lstm", attention="none", layers=2,
                                                                   bidirectional=False)),
    "recurrent_lstm_bahdanau": translation(RecurrentSeq2Seq, recurrent(cell="lstm", layers=2, d_hidden=5), clip=0.2,
                                           optimiser=ADAMW),
    "recurrent_lstm_luong_general": translation(RecurrentSeq2Seq, recurrent(cell="lstm", attention="luong_general",
                                                                            layers=2, d_hidden=5)),
}

# ------------------------------------------------------------------------------------------------------------- training


def draw(model, random):
    """Values that f32 holds exactly. No parameter keeps a value, such as a gain of 1, that would hide a mistake."""
    with torch.no_grad():
        for name, parameter, rows in model.names():
            target = parameter if rows is None else parameter[rows]
            values = 0.35 * torch.randn(target.shape, generator=random)
            if name.endswith("norm.weight"):
                values += 1
            target.copy_(values.float())


def make_optimiser(model, o):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    if o["kind"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=o["lr"], momentum=o["momentum"])
    settings = dict(lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])
    if o["kind"] == "adam":
        return torch.optim.Adam(model.parameters(), **settings)
    groups = [dict(params=matrices, weight_decay=o["decay"]), dict(params=vectors, weight_decay=0.0)]
    return torch.optim.AdamW(groups, **settings)


def clip_global_norm(model, limit):
    """As Rapt does: to the limit exactly, where clip_grad_norm_ divides by norm + 1e-6."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
    if 0 < limit < norm:
        for parameter in model.parameters():
            parameter.grad *= limit / norm


def compute(c, seed):
    random = torch.Generator().manual_seed(seed)
    model = c["model"](c["config"])
    draw(model, random)
    named = {id(p) for _, p, _ in model.names()}
    assert all(id(p) in named for p in model.parameters()), "a parameter has no name"
    inputs = c["batch"](c["config"], random)
    tensors = {k: v.int() for k, v in inputs.items()}

    def part(tensor, rows):
        return (tensor if rows is None else tensor[rows]).detach().clone()

    tensors |= {"weight." + name: part(p, rows).float() for name, p, rows in model.names()}
    optimiser = make_optimiser(model, c["optimiser"])
    losses = []
    for step in range(STEPS):
        optimiser.zero_grad()
        logits = model.logits(inputs)
        loss = F.cross_entropy(logits.flatten(0, -2), inputs["labels"].flatten(), ignore_index=c["ignore"],
                               label_smoothing=c["smoothing"])
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            tensors |= {"logits": logits.detach().clone(), "loss": losses[0]}
            tensors |= {"grad." + name: part(p.grad, rows) for name, p, rows in model.names()}
        clip_global_norm(model, c["optimiser"]["clip"])
        optimiser.step()
    return tensors | {"losses": torch.stack(losses)}


def metadata(c):
    settings = {"optimiser" if k == "kind" else k: str(v) for k, v in c["optimiser"].items()}
    return settings | dict(family=c["config"]["model_type"].removeprefix("rapt-"), config=json.dumps(c["config"]),
                           smoothing=str(c["smoothing"]), ignore=str(c["ignore"]))


def write(path, tensors, about):
    kinds = {torch.float64: "F64", torch.float32: "F32", torch.int32: "I32"}
    header, data = {"__metadata__": about}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        payload = tensor.contiguous().numpy().tobytes()
        header[name] = dict(dtype=kinds[tensor.dtype], shape=list(tensor.shape),
                            data_offsets=[len(data), len(data) + len(payload)])
        data += payload
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed, (name, c) in enumerate(CASES.items(), start=1):
        tensors = compute(c, seed)
        path = FOLDER / f"{name}.safetensors"
        write(path, tensors, metadata(c))
        losses = tensors["losses"]
        print(f"{name:30} {path.stat().st_size:7} bytes, loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
