"""The embedded server, as a process over HTTP, and its pure parts by themselves."""
