"""Tests of the privacy room: the egress gate and its rules, names, identity, selection, the fence, and proofs over
bytes."""
