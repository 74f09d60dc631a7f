"""Prometheus metrics of the engine and of the service."""
