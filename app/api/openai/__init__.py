"""OpenAI's family: completions by character models, for OpenAI's clients."""
