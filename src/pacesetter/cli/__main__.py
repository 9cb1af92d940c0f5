"""`python -m pacesetter.cli`."""

from pacesetter.cli import main

main()
