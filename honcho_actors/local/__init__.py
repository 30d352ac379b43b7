"""An embedded server that speaks Honcho's v3 HTTP interface: SQLite, full-text search, no model needed.

What lives here: the routes, the store, the search, the background derivation and the command that starts them as a
process of their own. What may not: anything of ours. The room is an island, reached only over HTTP, and says honestly
what it is: without a model it stores, searches and repeats what was said; it concludes nothing.
"""
