"""What surrounds a model: no HTTP, no torch."""
