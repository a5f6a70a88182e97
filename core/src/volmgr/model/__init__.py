"""The nouns of volmgr: plain frozen values, no behaviour that touches the host."""
