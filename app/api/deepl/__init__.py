"""DeepL's family: what its own clients ask for, in its own form.

family.py        all of it, as app.main includes it
route.py         its route: forms with repeated fields, its statuses and errors
translate.py     POST /v2/translate
account.py       languages, usage
glossaries.py    glossaries of one pair, /v2
multilingual.py  glossaries of many pairs, /v3
documents.py     files: sent, asked after, fetched
codes.py         language codes as DeepL spells them
"""
