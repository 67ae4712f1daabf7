"""What the commands in scripts/ share: standard library only, no installation needed."""
