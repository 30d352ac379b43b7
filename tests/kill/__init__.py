"""How the kill test is held."""
