"""`python -m volmgr.cli`."""

from volmgr.cli import main

main()
