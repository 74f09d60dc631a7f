"""Whom we race, each with the weights of a Parlance checkpoint, and each as well made as we can."""
