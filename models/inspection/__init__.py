"""Inspection of networks: numbers only, in fp32; a pass leaves the network unchanged. `selection` and `results` hold
plain values and need no torch."""
