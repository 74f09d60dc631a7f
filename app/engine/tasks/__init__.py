"""The engine's use cases, one a file: translate, generate, look at attention and gates, score, align."""
