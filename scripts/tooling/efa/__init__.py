"""A stand-in for EFA's installer, for machines that can't fetch the real one: same form, same places, no EFA in it."""
