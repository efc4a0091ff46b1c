"""Small training loops with one planted fault each, healthy ones, and some that are alike."""
