"""LibreTranslate as its own command starts it, run by the interpreter that it is installed for:

PYTHON benchmarks/peers/libretranslate_server.py PACKAGES PORT

PACKAGES holds an Argos package. The one thing that is not LibreTranslate's own is how a text is cut into sentences: its
neural models for that are downloaded at the first request, from a place that a machine without the internet does not
reach. A regular expression stands in, which costs less than they do. Nothing of Parlance is imported here.
"""

import logging
import os
import re
import sys

packages, port = sys.argv[1:]
os.environ["ARGOS_PACKAGES_DIR"] = packages

import argostranslate.sbd  # noqa: E402
from libretranslate import main  # noqa: E402  (the function, which the package names so)

logging.disable(logging.INFO)  # four log lines per sentence, which no operator would keep on
END = re.compile(r"(?<=[.!?])\s+")


def split_sentences(self, text):
    return END.split(text)


argostranslate.sbd.MiniSBDSentencizer.split_sentences = split_sentences
# without a limit and without its web page, as an operator of the API alone would start it
sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui", "--load-only", "de,en"]
main()
