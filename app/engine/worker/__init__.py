"""The device process: scheduler and models; the only code of the service that imports torch."""
