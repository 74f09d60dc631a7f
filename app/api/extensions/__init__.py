"""Translators in browsers, each in its own form.

family.py   all of them, as app.main includes it
route.py    their route
imme.py     POST /imme: Immersive Translate
kiss.py     POST /kiss: Kiss Translator
hcfy.py     POST /hcfy: Selection Translator (划词翻译)
google.py   /language/translate/v2, also below /google: clients of Google's Translation API v2
deeplx.py   POST /deeplx: clients of DeepLX; POST /deepl: as POST /v2/translate
"""
