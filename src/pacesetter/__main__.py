"""`python -m pacesetter`: the command `pacesetter`, where it is not on the path."""

from pacesetter.cli import main

main()
