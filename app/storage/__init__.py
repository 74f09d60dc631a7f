"""Data that callers store on the server: glossaries, translated files."""
