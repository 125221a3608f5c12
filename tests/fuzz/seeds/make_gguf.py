#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the GGUF fuzzing seeds beside this file: kinds.gguf holds every kind of value, tiny.gguf is
a whole one-layer model with zero weights and a byte-level tokenizer, spm.gguf one with
SentencePiece. packed.gguf and packed_f16.gguf are such models as packed files, whose checksums the fuzzer sets."""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FORMAT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q",
          I64: "q", F64: "d"}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return text(value) if kind == STR else struct.pack("<" + FORMAT[kind], value)


def pair(key, kind, value):
    if isinstance(value, list):
        body = struct.pack("<IIQ", ARR, kind, len(value)) + b"".join(scalar(kind, v) for v in value)
    else:
        body = struct.pack("<I", kind) + scalar(kind, value)
    return text(key) + body


def write(folder, name, pairs, tensors, alignment=32):
    """tensors: (name, dims, type, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    data = b""
    for label, dims, kind, size in tensors:
        out += text(label) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        out += struct.pack("<IQ", kind, len(data))
        data += bytes(size) + bytes(-size % alignment)
    out += bytes(-len(out) % alignment) + data
    (HERE / folder).mkdir(exist_ok=True)
    (HERE / folder / name).write_bytes(out)


def kinds():
    pairs = [pair("general.architecture", STR, "llama"), pair("general.alignment", U32, 64)]
    for kind in FORMAT:
        pairs += [pair(f"one.{kind}", kind, 1), pair(f"many.{kind}", kind, [0, 1, 1])]
    pairs += [pair("words", STR, ["", "a", "bc"])]
    write("fuzz_gguf", "kinds.gguf", pairs,
          [("a", [4, 3], 0, 48), ("b", [32, 2, 2, 1], 8, 136), ("c", [7], 1, 14)], 64)


def byte_tokens():
    plain = [b for b in range(256) if 33 <= b <= 126 or (b >= 161 and b != 173)]
    spare = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(spare)) for b in range(256)]


def bpe(more=()):
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + byte_tokens() + ["ab", "abc"]
    tokens += more
    return len(tokens), [
        pair("tokenizer.ggml.model", STR, "gpt2"), pair("tokenizer.ggml.pre", STR, "smollm"),
        pair("tokenizer.ggml.tokens", STR, tokens),
        pair("tokenizer.ggml.token_type", I32, [3] * 3 + [1] * (len(tokens) - 3)),
        pair("tokenizer.ggml.merges", STR, ["a b", "ab c"]),
        pair("tokenizer.chat_template", STR, "<|im_start|>")]


def spm():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokens += ["\u2581", "a", "b", "c", "ab", "\u2581ab"]
    return len(tokens), [
        pair("tokenizer.ggml.model", STR, "llama"),
        pair("tokenizer.ggml.tokens", STR, tokens),
        pair("tokenizer.ggml.scores", F32, [-float(i) for i in range(len(tokens))]),
        pair("tokenizer.ggml.token_type", I32, [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)),
        pair("tokenizer.chat_template", STR, "[INST] <<SYS>> content.strip()")]


def model_pairs(tokenizer, width, ff):
    n, vocabulary = tokenizer
    pairs = [pair("general.architecture", STR, "llama")]
    pairs += [pair("llama." + key, U32, value) for key, value in {
        "block_count": 1, "context_length": 64, "embedding_length": width,
        "feed_forward_length": ff, "attention.head_count": 2, "attention.head_count_kv": 1,
        "rope.dimension_count": 16, "vocab_size": n}.items()]
    pairs += [pair("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)] + vocabulary
    return pairs + [pair("tokenizer.ggml.bos_token_id", U32, 1),
                    pair("tokenizer.ggml.eos_token_id", U32, 2),
                    pair("tokenizer.ggml.add_bos_token", BOOL, tokenizer is SPM)]


def tiny(name, tokenizer, folders):
    n, width, kv, ff = tokenizer[0], 32, 16, 32
    block = lambda rows: rows * width // 32 * 18  # Q4_0
    pairs = model_pairs(tokenizer, width, ff)
    layer = [("attn_norm", [width], 0, 4 * width), ("attn_q", [width, 32], 2, block(32)),
             ("attn_k", [width, kv], 2, block(kv)), ("attn_v", [width, kv], 2, block(kv)),
             ("attn_output", [32, width], 2, block(width)), ("ffn_norm", [width], 0, 4 * width),
             ("ffn_gate", [width, ff], 2, block(ff)), ("ffn_up", [width, ff], 2, block(ff)),
             ("ffn_down", [ff, width], 2, block(width))]
    tensors = [("token_embd.weight", [width, n], 2, block(n)),
               ("output_norm.weight", [width], 0, 4 * width)]
    tensors += [(f"blk.0.{name}.weight", dims, kind, size) for name, dims, kind, size in layer]
    for folder in folders:
        write(folder, name, pairs, tensors)


def packed(name, embedding, head, joined, kind, row_bytes):
    """joined: names of the layer's matrices. head None: the embedding is the head."""
    more = [f"[{i}]" for i in range(11)]  # 272 tokens: whole tiles of 16
    width, ff, (n, vocabulary) = 32, 32, bpe(more)
    norm = lambda label: (label + ".weight", [width], 0, 4 * width)
    matrix = lambda label, rows: (label, [width, rows], kind, rows * row_bytes)
    tensors = [matrix(embedding, n), norm("output_norm"), norm("blk.0.attn_norm"),
               norm("blk.0.ffn_norm")]
    tensors += [matrix("blk.0." + label, rows) for label, rows in joined]
    tensors += [matrix(head, n)] if head else []
    pairs = model_pairs((n, vocabulary), width, ff) + [
        pair("general.alignment", U32, 4096), pair("foretoken.pack.version", U32, 1),
        pair("foretoken.pack.sums", U64, [1, 2]),
        pair("foretoken.pack.hash", U64, [0] * len(tensors)),
        pair("foretoken.pack.header", U64, 0)]
    write("fuzz_model", name, pairs, tensors, 4096)


SPM = spm()
kinds()
tiny("tiny.gguf", bpe(), ["fuzz_gguf", "fuzz_model"])
tiny("spm.gguf", SPM, ["fuzz_model"])
packed("packed.gguf", "token_embd.weight", "output_tied.packed",
       [("attn_qkv.packed", 64), ("attn_output.packed", 32), ("ffn_gate_up.packed", 64),
        ("ffn_down.packed", 32)], 2, 18)
packed("packed_f16.gguf", "token_embd.packed", None,
       [("attn_q.packed", 32), ("attn_k.weight", 16), ("attn_v.packed", 16),
        ("attn_output.weight", 32), ("ffn_gate_up.joined", 64), ("ffn_down.packed", 32)], 1, 64)
