"""The fields of requests and answers, one module per family; every field says what it is and shows an example.

Requests are strict (a number is not a text, true is not 1), and fields they do not know are ignored.
"""
