"""The kernels of a decode step, in Triton's language. `tests.models.backends.cuda.reference` states in PyTorch what
each one computes. One query per row: B rows, C features, H heads of width D; caches as in `kv_cache.LayerCache.both`,
[slots, T, K|V] with K and V of H·D numbers each.

Rows are independent: no sum runs over rows, and the order of every sum depends on constants alone. Sums are float32.
All tensors are contiguous; sizes are arguments, and whatever is upper-case is compiled in."""

import triton
import triton.language as tl


@triton.jit
def embed(tokens, lengths, position_ids, table, position_table, positions, x, scale, T, C, BLOCK: tl.constexpr):
    """Program: one row. Reads the row's length, clamped to its slot, into `positions`, counts the new token in
    `lengths`, and writes x = table[token] · scale + position_table[position_ids[position]]."""
    row = tl.program_id(0)
    length = tl.load(lengths + row)
    position = tl.minimum(length, T - 1)
    token = tl.load(tokens + row)
    tl.debug_barrier()  # every warp loads the length, and the first one counts the token
    tl.store(positions + row, position.to(tl.int32))
    tl.store(lengths + row, length + 1)
    place = tl.load(position_ids + position)
    for start in range(0, C, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < C
        vector = tl.load(table + token * C + column, mask=inside, other=0.0).to(tl.float32)
        offset = tl.load(position_table + place * C + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(x + row * C + column, (vector * scale + offset).to(x.dtype.element_ty), mask=inside)


@triton.jit
def linear(
    x,
    weight,
    bias,
    norm_weight,
    norm_bias,
    residual,
    kept,
    out,
    B,
    N,
    K,
    epsilon,
    NORM: tl.constexpr,
    KEEP: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    SPAN: tl.constexpr,
):
    """Program: ROWS x COLUMNS of out [B, N] = activation(norm(x) [B, K] · weight [N, K]ᵀ + bias) + residual [B, N].
    NORM: layer norm of x first, which the programs of the first columns also write to `kept` [B, K] if KEEP. SPAN:
    columns of x that the norm's statistics read at once. ACTIVATION: 0 none, 1 ReLU, 2 GELU, 3 SiLU. Arguments that
    the constants switch off are ignored."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    live = row < B
    inside = column < N
    lines = x + row[:, None] * K
    if NORM:
        total = tl.zeros([ROWS], tl.float32)
        for start in range(0, K, SPAN):
            k = start + tl.arange(0, SPAN)
            total += tl.sum(
                tl.load(lines + k[None, :], mask=live[:, None] & (k < K)[None, :], other=0.0).to(tl.float32), 1
            )
        mean = total / K
        squares = tl.zeros([ROWS], tl.float32)
        for start in range(0, K, SPAN):
            k = start + tl.arange(0, SPAN)
            read = tl.load(lines + k[None, :], mask=live[:, None] & (k < K)[None, :], other=0.0).to(tl.float32)
            centred = tl.where((k < K)[None, :], read - mean[:, None], 0.0)
            squares += tl.sum(centred * centred, 1)
        scale = 1.0 / tl.sqrt(squares / K + epsilon)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for start in range(0, K, INNER):
        k = start + tl.arange(0, INNER)
        w = tl.load(
            weight + column[None, :].to(tl.int64) * K + k[:, None], mask=inside[None, :] & (k < K)[:, None], other=0.0
        )
        a = tl.load(lines + k[None, :], mask=live[:, None] & (k < K)[None, :], other=0.0)
        if NORM:
            gain = tl.load(norm_weight + k, mask=k < K, other=0.0).to(tl.float32)
            shift = tl.load(norm_bias + k, mask=k < K, other=0.0).to(tl.float32)
            a = ((a.to(tl.float32) - mean[:, None]) * scale[:, None] * gain[None, :] + shift[None, :]).to(w.dtype)
            if KEEP:
                first = live & (tl.program_id(0) == 0)
                tl.store(kept + row[:, None] * K + k[None, :], a, mask=first[:, None] & (k < K)[None, :])
        sums = tl.dot(a, w, sums, input_precision="ieee")
    if BIAS:
        sums += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == 1:
        sums = tl.maximum(sums, 0.0)
    if ACTIVATION == 2:
        sums = 0.5 * sums * (1.0 + tl.erf(sums * 0.7071067811865476))
    if ACTIVATION == 3:
        sums = sums / (1.0 + tl.exp(-sums))
    here = row[:, None].to(tl.int64) * N + column[None, :]
    written = live[:, None] & inside[None, :]
    if RESIDUAL:
        sums += tl.load(residual + here, mask=written, other=0.0).to(tl.float32)
    tl.store(out + here, sums.to(out.dtype.element_ty), mask=written)


@triton.jit
def attend_own(qkv, cache, positions, context, scale, T, H, D: tl.constexpr, BLOCK: tl.constexpr):
    """Program: one row and head of self-attention. qkv [B, 3·H·D]: of the new token, whose key and value are written
    to cache [slots, T, K|V] at the row's position; its query attends to all positions up to there. context [B, H·D]."""
    row, head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    inner = H * D
    new = qkv + row * 3 * inner + head * D + d
    query = tl.load(new).to(tl.float32) * scale
    key, value = tl.load(new + inner), tl.load(new + 2 * inner)
    position = tl.load(positions + row)
    keys = cache + row.to(tl.int64) * T * 2 * inner + head * D
    tl.store(keys + position * 2 * inner + d, key)
    tl.store(keys + position * 2 * inner + inner + d, value)
    # the new token comes from registers, so that no program reads what it has just written
    most = tl.sum(query * key.to(tl.float32), 0)
    share = most * 0.0 + 1.0
    sums = value.to(tl.float32)
    for start in range(0, position, BLOCK):
        t = start + tl.arange(0, BLOCK)
        read = (t < position)[:, None]
        places = keys + t[:, None] * 2 * inner + d[None, :]
        k = tl.load(places, mask=read, other=0.0).to(tl.float32)
        v = tl.load(places + inner, mask=read, other=0.0).to(tl.float32)
        scores = tl.where(t < position, tl.sum(k * query[None, :], 1), -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 0))
        weights = tl.exp(scores - higher)
        kept = tl.exp(most - higher)
        sums = sums * kept + tl.sum(weights[:, None] * v, 0)
        share = share * kept + tl.sum(weights, 0)
        most = higher
    tl.store(context + row * inner + head * D + d, (sums / share).to(context.dtype.element_ty))


@triton.jit
def attend_source(
    query, cache, lengths, context, scale, S, H, GROUP, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Program: one head of the GROUP rows that share the source of the first of them, whose keys and values are read
    once. query, context [B, H·D]; cache [slots, S, K|V]; lengths [slots] of the sources, at least one position being
    read. ROWS: GROUP rounded up to a power of two."""
    first, head = tl.program_id(0) * GROUP, tl.program_id(1)
    d, member = tl.arange(0, D), tl.arange(0, ROWS)
    inner = H * D
    here = (first + member)[:, None] * inner + head * D + d[None, :]
    live = (member < GROUP)[:, None]
    q = tl.load(query + here, mask=live, other=0.0).to(tl.float32) * scale
    length = tl.minimum(tl.maximum(tl.load(lengths + first), 1), S).to(tl.int32)
    keys = cache + first.to(tl.int64) * S * 2 * inner + head * D
    most = tl.full([ROWS], -float("inf"), tl.float32)
    share = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, D], tl.float32)
    for start in range(0, length, BLOCK):
        t = start + tl.arange(0, BLOCK)
        read = (t < length)[:, None]
        places = keys + t[:, None] * 2 * inner + d[None, :]
        k = tl.load(places, mask=read, other=0.0).to(tl.float32)
        v = tl.load(places + inner, mask=read, other=0.0).to(tl.float32)
        scores = tl.sum(q[:, None, :] * k[None, :, :], 2)
        scores = tl.where((t < length)[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        kept = tl.exp(most - higher)
        sums = sums * kept[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)
        share = share * kept + tl.sum(weights, 1)
        most = higher
    tl.store(context + here, (sums / share[:, None]).to(context.dtype.element_ty), mask=live)


@triton.jit
def reorder(cache, parents, lengths, T, GROUP, W, ROWS: tl.constexpr, POSITIONS: tl.constexpr, COLUMNS: tl.constexpr):
    """Program: POSITIONS of the GROUP rows of a beam in cache [slots, T, W]. Each row takes the positions that hold
    tokens from its parent, parents [B], a row of the same beam: all are read before any is written."""
    first, start = tl.program_id(0) * GROUP, tl.program_id(1) * POSITIONS
    member = tl.arange(0, ROWS)
    row = first + member
    parent = tl.load(parents + row, mask=member < GROUP, other=0)
    length = tl.load(lengths + row, mask=(member < GROUP) & (parent != row), other=0)
    if start < tl.max(length, 0):
        t = start + tl.arange(0, POSITIONS)
        for left in range(0, W, COLUMNS):
            column = left + tl.arange(0, COLUMNS)
            place = t[None, :, None] * W + column[None, None, :]
            moved = (t[None, :] < tl.minimum(length, T)[:, None])[:, :, None] & (column < W)[None, None, :]
            read = tl.load(cache + parent[:, None, None] * T * W + place, mask=moved, other=0.0)
            tl.debug_barrier()
            tl.store(cache + row.to(tl.int64)[:, None, None] * T * W + place, read, mask=moved)


@triton.jit
def move(cache, aside, parents, lengths, T, W, BACK: tl.constexpr, POSITIONS: tl.constexpr, COLUMNS: tl.constexpr):
    """Program: POSITIONS of one row, if its parent is another one. Copies the parent's tokens from cache [slots, T, W]
    to the row's place in aside [B, T, W] or, if BACK, from there to the row in the cache: `reorder` for rows of any
    beams, in two launches."""
    row, start = tl.program_id(0), tl.program_id(1) * POSITIONS
    parent = tl.load(parents + row)
    length = tl.minimum(tl.load(lengths + row), T)
    if (parent != row) & (start < length):
        t = start + tl.arange(0, POSITIONS)
        read, written = (aside, cache) if BACK else (cache, aside)
        source = row.to(tl.int64) if BACK else parent
        for left in range(0, W, COLUMNS):
            column = left + tl.arange(0, COLUMNS)
            place = t[:, None] * W + column[None, :]
            moved = (t < length)[:, None] & (column < W)[None, :]
            values = tl.load(read + source * T * W + place, mask=moved, other=0.0)
            tl.store(written + row.to(tl.int64) * T * W + place, values, mask=moved)
