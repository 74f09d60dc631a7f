"""One sentence of why for each step of a forward pass, by its name."""

from __future__ import annotations

WHY = {
    "token embedding": "Each token of the vocabulary has a row of learnt numbers; this is where it becomes something"
    " that can be computed with.",
    "scale": "The row is made as large as the positions, so that neither drowns the other.",
    "position": "Attention looks at all places at once and would not know their order; this vector says where the token"
    " stands.",
    "sum": "From here on one vector holds what the token is and where it stands.",
    "layer input": "What the layers below have made of this place.",
    "norm": "The vector is brought to mean 0 and variance 1, and scaled by learnt numbers, so that layers above can"
    " rely on its size.",
    "query": "What this place looks for.",
    "keys": "What each place offers to be found by.",
    "values": "What each place hands over where it is looked at.",
    "scores": "How well each key answers the query; the factor keeps the sums from growing with the width of a head.",
    "masked scores": "Padding is never looked at, and the decoder never looks at what comes later.",
    "softmax": "The scores become shares that sum to 1: the row of the attention map.",
    "context": "The values, mixed by these shares: what the head brings back.",
    "heads concatenated": "Every head looks in its own way; their findings are put side by side.",
    "output projection": "The findings of all heads are mixed into one vector of the model's width.",
    "residual": "What was found is added to what was there, so that nothing is lost on the way up.",
    "widen": "Each place alone, without the others, is spread over more numbers.",
    "activation": "The only step that is not linear: without it all layers would be one.",
    "narrow": "The numbers are brought back to the model's width.",
    "final norm": "With norms before the sublayers, the sum of all layers has one of its own.",
    "logits": "Each token of the vocabulary is compared with the vector; the largest numbers fit best.",
    "probabilities": "The logits as shares that sum to 1, without the tokens that are never written.",
}
