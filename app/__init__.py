"""Online: checkpoint -> HTTP. A request's way, and the files in the order in which it meets them:

__main__.py      python -m app: serves, drains on SIGTERM
main.py          create_app(settings, engine): the only place where things are wired
keys.py          python -m app.keys: makes, lists and removes API keys
logs.py          how log lines look, and what never stands in one
settings.py      every setting, its unit in its name, read once
tracing.py       traces, where an operator wants them
setting_values.py  what one that is a text may say
settings_table.py  python -m app.settings_table: writes all settings into a document
api/             HTTP only: validates, translates into a domain request, answers
documents/       files of people's programs, translated in place
translation/     a text of any length -> sentences -> the same text, translated
access/          who may ask for how much
storage/         glossaries and suggestions
text/            what surrounds a model: language detection
engine/          jobs -> pool -> worker -> scheduler -> runner, with messages and errors as leaves
"""
