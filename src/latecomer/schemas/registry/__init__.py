"""Schemas by subject and id: a server that speaks Confluent's REST interface, and a client of any such server.

core       Registry: each operation one transaction; `questions`, `settings` and `transactions` are parts of it
app        the same over HTTP; needs the extra `registry`
client     asks a registry, ours or another's, with the standard library alone
checking   the schemas of a folder, or the history of a registry, held against a level

ADR 0043 has the reasons.
"""
