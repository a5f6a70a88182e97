"""The image volume type."""
