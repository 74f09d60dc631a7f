"""Texts of any length, layout and format, translated sentence by sentence; nothing of them is lost on the way.

`prepare` cuts a text into sentences, `text_translator` takes them through `cached_engine` and `repair`, `assemble`
joins their translations.
"""
