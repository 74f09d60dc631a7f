"""The process of one device: its scheduler, its models, and the only code of the service that imports torch."""
