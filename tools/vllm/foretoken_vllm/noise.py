# SPDX-License-Identifier: Apache-2.0
"""foretoken's draw of a token, in numpy: the same bits as src/spec/noise.c and src/spec/sampling.c.

A draw is a function of logits, sampling and the position of the drawn token in the text.
tests/spec/draws.txt holds results that this module and the C code must both give. Operations stand
in the same order as there, because each rounds once."""
from dataclasses import dataclass

import numpy as np

TAG = 0x6C626D67
FLOOR = 2.0 ** -24  # tokens that are less probable than this beside the likeliest are out
WEIGHT_MAX = float(1 << 40)
F32, U32, U64 = np.float32, np.uint32, np.uint64


@dataclass(frozen=True)
class Sampling:
    """temperature 0: greedy. top_k 0, top_p 1, min_p 0: off."""
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


def philox(seed, position, block):
    """Philox4x32-10: the random bits of tokens 4 block to 4 block + 3, [4, len(block)]."""
    low = U64(0xFFFFFFFF)
    c0, c1 = block.astype(U64), np.full(len(block), position, U64)
    c2, c3 = np.full(len(block), TAG, U64), np.zeros(len(block), U64)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = U64(0xD2511F53) * c0, U64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> U64(32)) ^ c1 ^ U64(k0), p1 & low,
                          (p0 >> U64(32)) ^ c3 ^ U64(k1), p0 & low)
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3])


def log(x):
    """Natural logarithm of normal, positive, finite doubles [n]."""
    bits = np.asarray(x, np.float64).view(U64)
    k = (bits - U64(0x3FE6A09E667F3BCD)).view(np.int64) >> np.int64(52)
    m = (bits - (k << np.int64(52)).view(U64)).view(np.float64)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = np.full_like(z, 1.0 / 17.0)
    for odd in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        p = p * z + 1.0 / odd
    return k.astype(np.float64) * 0.69314718055994530942 + 2.0 * (s + s * (z * p))


def gumbel(seed, position, tokens):
    """Standard Gumbel noise of tokens [n] at a position, float32."""
    tokens = np.asarray(tokens, np.int64)
    block, at = np.unique(tokens >> 2, return_inverse=True)
    bits = philox(seed, position, block)[tokens & 3, at]
    u = (bits.astype(np.float64) + 0.5) * 2.0 ** -32
    return (-log(-log(u))).astype(F32)


def exp(x):
    """exp of float32 values <= 0; 0 below -87."""
    magic = F32(12582912.0)
    clamped = np.maximum(x, F32(-87.0))
    k = (clamped * F32(1.44269504) + magic) - magic
    r = (clamped - k * F32(0.693145752)) - k * F32(1.42860677e-6)
    p = np.full_like(r, F32(0.00138888892))
    for c in (0.00833333377, 0.0416666679, 0.166666672, 0.5, 1.0, 1.0):
        p = F32(c) + r * p
    scale = ((k.astype(np.int32) + 127).astype(U32) << U32(23)).view(F32)
    return np.where(x > F32(-87.0), p * scale, F32(0.0))


def scaled_floor(least):
    return F32(log(np.array([float(least)]))[0])


def keep_top(ids, scaled, sampling):
    """The candidates that top-k and top-p leave, the likeliest first."""
    order = np.lexsort((ids, np.abs(scaled).view(U32)))  # of equals the lower token is first
    ids, scaled = ids[order], scaled[order]
    if sampling.top_k > 0:
        ids, scaled = ids[:sampling.top_k], scaled[:sampling.top_k]
    top_p = F32(sampling.top_p)
    if top_p < 1:
        weights = (exp(scaled).astype(np.float64) * WEIGHT_MAX).astype(U64)
        sums = np.cumsum(weights, dtype=U64)
        target = max(int(np.ceil(float(top_p) * float(sums[-1]))), 1)
        n = int(np.searchsorted(sums, U64(target), side="left")) + 1
        ids, scaled = ids[:n], scaled[:n]
    return ids, scaled


def draw(logits, sampling, position):
    """The token at `position` of the text, from float32 logits [vocabulary]."""
    finite = np.isfinite(logits)
    if not finite.any():
        return 0
    top = np.max(logits, where=finite, initial=-np.inf)
    if sampling.temperature == 0:
        return int(np.flatnonzero(logits == top)[0])
    floor, min_p = scaled_floor(FLOOR), F32(sampling.min_p)
    min_p = scaled_floor(min_p) if min_p > FLOOR else floor
    late = F32(sampling.top_p) < 1  # only top-p looks at the mass of what min-p drops
    per_t = F32(1.0) / F32(sampling.temperature)
    ids = np.flatnonzero(finite)
    scaled = (logits[ids] - top) * per_t
    stay = scaled >= (floor if late else min_p)
    ids, scaled = ids[stay], scaled[stay]
    if late or sampling.top_k > 0:
        ids, scaled = keep_top(ids, scaled, sampling)
    if late:
        stay = scaled >= min_p
        ids, scaled = ids[stay], scaled[stay]
    score = scaled + gumbel(sampling.seed, position, ids)
    return int(ids[score == score.max()].min())
