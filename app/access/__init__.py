"""API keys, rate limits and quotas: admits and charges requests. No HTTP."""
