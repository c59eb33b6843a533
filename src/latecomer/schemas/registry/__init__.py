"""Schemas by subject and id: a server that speaks Confluent's REST interface, and a client of any such server.

core       Registry: each operation is one transaction; its base classes are in `questions` and `settings`
app        the registry over HTTP; needs the extra `registry`
client     asks a registry, ours or another; needs only the standard library
checking   checks the schemas of a folder, or the history of a registry, against a level

ADR 0043 has the reasons.
"""
