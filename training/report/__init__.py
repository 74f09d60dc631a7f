"""What a run reports: progress, metrics, curves, samples and the model card."""
