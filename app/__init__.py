"""Online: checkpoint -> HTTP. A request's way, and the files in the order in which it meets them:

__main__.py      python -m app: serves, drains on SIGTERM
main.py          create_app(settings, engine): the only place where things are wired
settings.py      every setting, its unit in its name, read once
api/             HTTP only: validates, translates into a domain request, answers
documents/       files of people's programs, translated in place
translation/     a text of any length -> sentences -> the same text, translated
access/          who may ask for how much
storage/         glossaries and suggestions
text/            what surrounds a model: language detection
engine/          jobs -> pool -> worker -> scheduler -> runner, with messages and errors as leaves
"""
