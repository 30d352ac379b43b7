"""What the people who run a process need: the scrape port and the admin endpoint, read-only, never on a turn's way.

What stands here may read the runtime's status and meters; it may not change anything, wait for an actor, or be imported
by what stands below it.
"""
