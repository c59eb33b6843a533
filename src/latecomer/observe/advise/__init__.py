"""Advice on watermarks, from a log or from raw files. It needs no Spark.

`log.py` and `raw.py` read a history, `measuring.py` goes through it twice, `report.py` has the result, `words.py` says
it, and `page.py` shows it as HTML.
"""
