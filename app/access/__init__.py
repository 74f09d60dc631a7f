"""API keys, rate limits and quotas: which requests are admitted, and what they are charged. No HTTP."""
