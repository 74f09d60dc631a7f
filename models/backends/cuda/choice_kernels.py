"""The choice of every row's next token as one kernel, in Triton's language: suppression, the likeliest token or a draw
by the rule of `models.backends.torch.token_choice`, and the log-probability of the choice. Nothing is sorted. For
beams, two kernels: the likeliest tokens of each row, and the continuations of each beam.

A draw walks the tokens in an order: by descending logit in rows with top-k or top-p, and by index in others. Each token
has a key that falls along the walk; where the weights so far pass a number, a search over the keys finds, two bits a
pass. Weights are integers, exp((logit - largest) / temperature) times a power of two, so that their sums are exact, in
any order."""

import triton
import triton.language as tl

# Options of a row that a draw reads, in the order in which `models.decoding.device_step` lays their columns out
OPTIONS = ("temperature", "top_k", "top_p", "min_p")
TEMPERATURE, TOP_K, TOP_P, MIN_P = map(tl.constexpr, range(len(OPTIONS)))


@triton.jit
def ordered(x):
    """float32 -> int32 that are ordered in the same way; -0 is 0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def unordered(key):
    """The inverse of `ordered`."""
    bits = key ^ ((key >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def weight(x, most, coldness, whole):
    """The integer weight of logits, 0 for those of -inf or NaN; the largest logit weighs `whole`."""
    share = tl.exp((x - most) * coldness) * whole
    return tl.where(x > -float("inf"), share, 0.0).to(tl.int64)


@triton.jit
def passed(line, V, keys, most, coldness, whole, CUT, COUNT, BLOCK: tl.constexpr):
    """keys [R] -> the sum over the tokens with at least that key: of 1 if COUNT, else of their weights. CUT: keys are
    ordered logits, else falling indices."""
    sums = tl.zeros([keys.shape[0], BLOCK], tl.int64)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(line + column, mask=column < V, other=-float("inf"))
        key = tl.where(CUT, ordered(x), -column)
        parts = tl.where(COUNT, 1, weight(x, most, coldness, whole))
        parts = tl.where(column < V, parts, 0)
        sums += tl.where(key[None, :] >= keys[:, None], parts[None, :], 0)
    return tl.sum(sums, 1)


@triton.jit
def crossing(line, V, target, most, coldness, whole, CUT, COUNT, BLOCK: tl.constexpr):
    """The largest key at which `passed` exceeds the target, and the sum over the tokens of larger keys."""
    lowest = tl.full([], -2147483648, tl.int64)
    step = tl.arange(0, 4).to(tl.int64)
    for level in range(16):
        candidates = lowest + (step << (30 - 2 * level))
        sums = passed(line, V, candidates, most, coldness, whole, CUT, COUNT, BLOCK)
        # the first one needs no look: it has been passed already
        lowest += (tl.sum(((sums > target) & (step > 0)).to(tl.int64), 0)) << (30 - 2 * level)
    above = passed(line, V, lowest + 1 + step * 0, most, coldness, whole, CUT, COUNT, BLOCK)
    return lowest, tl.max(above, 0)


@triton.jit
def likeliest(line, V, BLOCK: tl.constexpr):
    """The largest logit and its first index; NaN is never the largest."""
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    place = tl.arange(0, BLOCK)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(line + column, mask=column < V, other=-float("inf"))
        place = tl.where(x > most, column, place)
        most = tl.where(x > most, x, most)
    largest = tl.max(most, 0)
    return largest, tl.min(tl.where(most == largest, place, V - 1), 0)


@triton.jit
def log_sum(line, V, most, BLOCK: tl.constexpr):
    """The logarithm of the sum of exp(logit)."""
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        sums += tl.exp(tl.load(line + column, mask=column < V, other=-float("inf")) - most)
    return most + tl.log(tl.sum(sums, 0))


@triton.jit
def allowed(line, suppressed, V, COUNT, RENORMALISE: tl.constexpr, BLOCK: tl.constexpr):
    """Sets the COUNT suppressed tokens of a row to -inf. The largest logit of the others, its index, and the logarithm
    of the sum that probabilities are relative to: of the others if RENORMALISE, else of all tokens."""
    shared = tl.full([], 0.0, tl.float32)
    if not RENORMALISE:
        most, token = likeliest(line, V, BLOCK)
        shared = log_sum(line, V, most, BLOCK)
        tl.debug_barrier()
    for number in range(COUNT):
        tl.store(line + tl.load(suppressed + number), -float("inf"))
    tl.debug_barrier()
    most, token = likeliest(line, V, BLOCK)
    if RENORMALISE:
        shared = log_sum(line, V, most, BLOCK)
    return most, token, shared


@triton.jit
def probable(line, V, min_p, most, coldness, whole, BLOCK: tl.constexpr):
    """How many tokens weigh at least min_p times as much as the likeliest."""
    least = (min_p * whole).to(tl.int64)
    counts = tl.zeros([BLOCK], tl.int64)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(line + column, mask=column < V, other=-float("inf"))
        counts += tl.where((column < V) & (weight(x, most, coldness, whole) >= least), 1, 0)
    return tl.maximum(tl.sum(counts, 0), 1)


@triton.jit
def drawn(line, V, most, coldness, whole, top_k, top_p, uniform, BLOCK: tl.constexpr):
    """The token at the row's uniform number, see `models.backends.torch.token_choice.draw`."""
    cut = (top_k > 0) | (top_p < 1.0)
    none = tl.full([4], -2147483648, tl.int64)
    mass = tl.max(passed(line, V, none, most, coldness, whole, False, False, BLOCK), 0)
    if (top_k > 0) & (top_k < V):
        key, above = crossing(line, V, top_k - 1, most, coldness, whole, True, True, BLOCK)
        larger = passed(line, V, none * 0 + key + 1, most, coldness, whole, True, False, BLOCK)
        each = weight(unordered(key.to(tl.int32)), most, coldness, whole)
        mass = tl.max(larger, 0) + (top_k - above) * each
    if top_p < 1.0:
        enough = top_p * mass.to(tl.float64)
        needed = tl.maximum(tl.ceil(enough).to(tl.int64), 1)
        key, above = crossing(line, V, needed - 1, most, coldness, whole, True, False, BLOCK)
        each = tl.maximum(weight(unordered(key.to(tl.int32)), most, coldness, whole), 1)
        mass = above + (needed - above + each - 1) // each * each
    target = tl.minimum((uniform * mass.to(tl.float64)).to(tl.int64), mass - 1)
    key, above = crossing(line, V, target, most, coldness, whole, cut, False, BLOCK)
    token = -key.to(tl.int32)
    if cut:
        each = tl.maximum(weight(unordered(key.to(tl.int32)), most, coldness, whole), 1)
        rank = (target - above) // each  # among the tokens with this logit, by index
        before = tl.full([], 0, tl.int64)
        token = tl.full([], 2147483647, tl.int32)
        for start in range(0, V, BLOCK):
            column = start + tl.arange(0, BLOCK)
            x = tl.load(line + column, mask=column < V, other=-float("inf"))
            same = ((ordered(x) == key) & (column < V)).to(tl.int32)
            here = before + tl.cumsum(same, 0)
            hit = (same == 1) & (here == rank + 1)
            token = tl.minimum(token, tl.min(tl.where(hit, column, 2147483647), 0))
            before += tl.sum(same, 0)
    return tl.minimum(tl.maximum(token, 0), V - 1)


@triton.jit
def float_option(place):
    """A float64 in a table of int64."""
    return tl.load(place).to(tl.float64, bitcast=True)


@triton.jit
def choose(
    logits, suppressed, fed, written, options, uniform, results, V, COUNT, LONGEST, ROWS, STRIDE, whole,
    RENORMALISE: tl.constexpr, DRAW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program: one row of logits [B, V], float32, in which the COUNT suppressed tokens become -inf. The token is
    written to `fed`, and with its log-probability to results [2, ROWS] as float32; `written` counts it. RENORMALISE:
    suppressed tokens have no share of the probability. DRAW: rows with a temperature draw at uniform [B, LONGEST], at
    the number of tokens written. options [len(OPTIONS), STRIDE]: those of the rows. whole: the weight of the likeliest
    token, a power of two."""
    row = tl.program_id(0)
    line = logits + row.to(tl.int64) * V
    most, token, shared = allowed(line, suppressed, V, COUNT, RENORMALISE, BLOCK)
    place = tl.load(written + row)
    if DRAW:
        heat = float_option(options + row + STRIDE * TEMPERATURE)
        if (heat > 0.0) & (most > -float("inf")) & (most < float("inf")):
            coldness = (1.0 / tl.maximum(heat, 1e-30)).to(tl.float32)
            share = tl.load(uniform + row * LONGEST + tl.minimum(place, LONGEST - 1))
            top_k = tl.load(options + row + STRIDE * TOP_K)
            top_p = float_option(options + row + STRIDE * TOP_P)
            min_p = float_option(options + row + STRIDE * MIN_P)
            if min_p > 0.0:
                count = probable(line, V, min_p, most, coldness, whole, BLOCK)
                top_k = tl.where(top_k > 0, tl.minimum(top_k, count), count)
            token = drawn(line, V, most, coldness, whole, top_k, top_p, share, BLOCK)
    tl.store(results + row, token.to(tl.float32))
    tl.store(results + ROWS + row, tl.load(line + token) - shared)
    tl.store(fed + row, token.to(tl.int64))
    tl.store(written + row, place + 1)


@triton.jit
def next_likeliest(line, V, bound, after, BLOCK: tl.constexpr):
    """As `likeliest`, of the logits below `bound`, and of those equal to it with an index beyond `after`."""
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    place = tl.arange(0, BLOCK)
    for start in range(0, V, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(line + column, mask=column < V, other=-float("inf"))
        later = (x < bound) | ((x == bound) & (column > after))
        place = tl.where(later & (x > most), column, place)
        most = tl.where(later & (x > most), x, most)
    largest = tl.max(most, 0)
    return largest, tl.min(tl.where(most == largest, place, V - 1), 0)


@triton.jit
def top_tokens(
    logits, suppressed, written, values, tokens, V, COUNT, BEST, RENORMALISE: tl.constexpr, BLOCK: tl.constexpr
):
    """Program: one row of logits [B, V] as in `choose`. Its BEST likeliest tokens, best first, with their
    log-probabilities: tokens, values [B, BEST]."""
    row = tl.program_id(0)
    line = logits + row.to(tl.int64) * V
    most, token, shared = allowed(line, suppressed, V, COUNT, RENORMALISE, BLOCK)
    for rank in range(BEST):
        tl.store(values + row * BEST + rank, most - shared)
        tl.store(tokens + row * BEST + rank, token.to(tl.int64))
        most, token = next_likeliest(line, V, most, token, BLOCK)
    tl.store(written + row, tl.load(written + row) + 1)


@triton.jit
def continue_beams(
    values, tokens, read, write, late, totals, fed, parents, results, SPARE, WIDTH, BEST, KEPT, END, BEAMS,
    MEMBERS: tl.constexpr, CANDIDATES: tl.constexpr,
):  # fmt: skip
    """Program: a beam of WIDTH hypotheses, which are the rows `read` and will be the rows `write`, [BEAMS, WIDTH]; a
    hypothesis written to row SPARE does not exist. values, tokens [B, BEST]: of `top_tokens`. The KEPT best
    continuations go to results [3, BEAMS, KEPT]: total log-probability, the parent's place, token; first those that do
    not end in END, then the others, with -inf if late [BEAMS, KEPT], by rank. The first WIDTH continue: their totals,
    tokens (`fed`) and parents are written to their rows. MEMBERS, CANDIDATES: WIDTH and BEST rounded up to powers of
    two."""
    beam = tl.program_id(0)
    place = tl.arange(0, MEMBERS * CANDIDATES)
    member, candidate = place // CANDIDATES, place % CANDIDATES
    every = (member < WIDTH) & (candidate < BEST)
    row = tl.load(read + beam * WIDTH + member, mask=every, other=0)
    exists = tl.load(write + beam * WIDTH + member, mask=every, other=SPARE) != SPARE
    score = tl.load(values + row * BEST + candidate, mask=every, other=0.0)
    score += tl.load(totals + row, mask=every, other=0.0).to(tl.float32)
    score = tl.where(exists & (score > -float("inf")), score, -float("inf"))
    token = tl.load(tokens + row * BEST + candidate, mask=every, other=0)
    tl.debug_barrier()
    slot = 0
    for ending in range(2):
        free = every
        for rank in range(KEPT):
            best = tl.max(tl.where(free, score, -float("inf")), 0)
            first = tl.min(tl.where(free & (score == best), place, MEMBERS * CANDIDATES - 1), 0)
            free = free & (place != first)
            chosen = tl.sum(tl.where(place == first, token, 0), 0)
            if (chosen == END) == (ending == 1):
                parent = first // CANDIDATES
                if ending == 1:
                    best = tl.where(tl.load(late + beam * KEPT + rank), -float("inf"), best)
                tl.store(results + beam * KEPT + slot, best)
                tl.store(results + (BEAMS + beam) * KEPT + slot, parent.to(tl.float32))
                tl.store(results + (2 * BEAMS + beam) * KEPT + slot, chosen.to(tl.float32))
                if slot < WIDTH:
                    target = tl.load(write + beam * WIDTH + slot)
                    tl.store(totals + target, best.to(tl.float64))
                    tl.store(fed + target, chosen)
                    tl.store(parents + target, tl.load(read + beam * WIDTH + parent))
                slot += 1
