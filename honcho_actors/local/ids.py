"""Identifiers that the server makes: 21 characters over `A-Za-z0-9_-`, as Honcho's."""

from __future__ import annotations

import secrets

LENGTH = 21


def new_id() -> str:
    return secrets.token_urlsafe(16)[:LENGTH]
