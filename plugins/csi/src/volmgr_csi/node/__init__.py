"""The node service's part: staging, publishing, growing and measuring volumes, and what lies on disk of each."""
