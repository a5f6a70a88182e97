"""Where Pods and objects come from, and what is remembered of them."""
