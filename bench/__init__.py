"""The benchmark: bccb's speed and memory, and its peers' on the same job, in one run.

``make bench`` installs the peers in an environment of their own and runs ``python -m bench``.
A peer that is not installed has its rows marked so; everything else is still measured.
"""
