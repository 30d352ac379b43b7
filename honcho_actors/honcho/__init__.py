"""The client for Honcho v3: one connection pool, one gate in front of it, outcomes as values, a deadline for every
call.

Here live the words (`outcomes`), the policies (`limiter`, `breaker`, `retry_after`, all free of I/O), where the
server is (`endpoint`), what is made safe before it is sent (`wire`), what is taken from a reply (`replies`,
`reading`), the wire itself (`resolver`, `stream`, `transport`) and the operations (`client`). This room knows nothing
of conversations, caches or the outbox, decides nothing about what to ask, and logs nothing. Importing it is cheap;
`client` imports the HTTP library.
"""
