"""What a network can show of itself: numbers only, in fp32, each pass leaving the network as it was.

selection and results hold choices and findings as plain values and need no torch.
"""
