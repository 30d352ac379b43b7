"""Who somebody is, what things are called elsewhere, and what may leave this machine.

Here live the egress gate (`egress`: the only maker of `Screened`, which is the only text that the client sends), its
rules (`rules`), remote names (`names`), identity (`identity`), what a host selects (`selection`), the fence around what
was recalled (`fence`) and the envelope with an id around that (`envelope`). This room knows text and keys only: no
network, no file except one optional look for a repository root, no knowledge of sessions, snapshots or the outbox.
"""
