"""Advice on watermarks, from a log or from raw files. It needs no Spark.

`log.py` and `raw.py` read a history, `measuring.py` goes through it twice, `report.py` is what was found, `page.py`
that as a page of HTML.
"""
