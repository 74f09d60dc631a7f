"""What surrounds a model: no HTTP, no torch.

markup/  HTML around its texts
"""
