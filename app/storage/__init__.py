"""Data that callers store on the server: glossaries, suggestions, translated files."""
