"""What surrounds a model: no HTTP, no torch.

characters.py  which characters are layout
detection.py   which language a text is in
glossary.py    terms in a text
languages.py   names of languages
markup/        HTML around its texts
plain.py       texts that hold one sentence of words alone
protected.py   links, placeholders and numbers in a text
sentences.py   where sentences end
tags.py        language tags
"""
