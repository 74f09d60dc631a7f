"""HTML around its texts: what is to be translated, and the same page with the translations in it.

elements.py  what each element is to a sentence
tokens.py    a page cut into its tags and texts, each with its place
page.py      verbatim parts and passages in turn; the page written again
passage.py   a text between two blocks, and the inline tags in it
words.py     the words of a translation and where each comes from
placing.py   the inline tags around the words of the translation
writing.py   text and tags to HTML again

The tokens are turbohtml's (the WHATWG tokenizer in C, with the place of each token): html.parser takes 100 s for
100,000 characters of "<a ", html5lib and selectolax keep no places, lxml normalizes what it reads.
Attributes (alt, title, placeholder, aria-label) are left as they are, as LibreTranslate and DeepL do.
"""
