"""How the journal's tables came about, one revision after another; alembic runs them."""
