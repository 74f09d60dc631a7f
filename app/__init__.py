"""The service: from a checkpoint to HTTP. A request passes api, translation (texts and documents), then engine."""
