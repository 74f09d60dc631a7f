"""What a model computes: attention, a forward pass step by step, gates, scores."""
