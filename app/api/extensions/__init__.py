"""Translators in browsers, each in its own form."""
