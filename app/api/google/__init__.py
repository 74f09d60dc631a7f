"""Google's Translation API v2, for its clients."""
